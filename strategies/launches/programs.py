"""Programs: which of those that a shell runs prepare a training, and which launch it."""

from __future__ import annotations

from collections.abc import Sequence

from muster.strategies.launches.launches import Launch, Launcher, program

__all__ = ["is_preparation", "is_training", "runs_nothing"]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PREPARING = _names(
    """
        apk apt apt-get aws awk az base64 basename bc cat chmod chown chgrp cmp column comm conda cp crane curl cut
        date dd df diff dig dirname dnf dpkg du echo egrep env expr false fgrep file find findmnt fold free fuser
        gcloud getconf getent gh git git-lfs grep groupadd groups gsutil gunzip gzip hash head hf hostname
        hostnamectl htop huggingface-cli ibstat ibstatus ibv_devinfo id ifconfig install ip iptables jq kill killall
        kubectl ldconfig ldd ln locale locale-gen ls lscpu lsmod lsof lspci make mamba md5sum micromamba mkdir
        mkfifo mktemp modinfo modprobe mount mountpoint mv nc nccl-tests netstat nl nproc nslookup ntpdate numfmt
        nvcc nvidia-smi nvtop od openssl pgrep pidof ping pip pip3 pipenv pipx pixi pkill poetry printenv printf ps
        pwd rclone readlink realpath rocm-smi rocminfo rm rmdir rsync rye s3cmd s5cmd scp sed seq service sha256sum
        shuf sleep sort ss ssh ssh-keygen ssh-keyscan sshd stat stty sync sysctl tac tail tar tee test time
        timedatectl touch tr tree true truncate tty ulimit umount uname unexpand uniq unlink unzip
        update-alternatives uptime useradd usermod uv uuidgen vi vmstat wandb wc wget which whoami xz yes yq yum
        zcat zip zstd dmesg dos2unix hash tput clear iperf3 free lsblk azcopy oras mlflow dvc skopeo pdm hatch
        ray-dashboard virtualenv ninja cmake gcc g++ cargo npm node-exporter dcgm-exporter dcgmi
        nvidia-cuda-mps-control nv-hostengine tensorboard
    """
)
_PREPARING_MODULES = _names(
    """
        pip ensurepip venv virtualenv site compileall http.server json.tool zipfile tarfile timeit this platform
        sysconfig torch.utils.collect_env bitsandbytes nltk.downloader spacy wandb xformers.info
        huggingface_hub.commands.huggingface_cli tensorboard.main py_compile ipykernel build uv
    """
)
_SAYING = frozenset({"-V", "-VV", "--version", "-h", "--help"})
_SERVERS = frozenset({"vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server"})


def is_preparation(words: Sequence[str]) -> bool:
    """Tell whether a program neither trains nor starts another that does."""
    name = program(words[0])
    return name in _PREPARING and not (name == "find" and any(word.startswith("-exec") for word in words))


def runs_nothing(launch: Launch) -> bool:
    """Tell whether a launcher or Python is called only to install, to configure or to say something."""
    asked = {"help", "version"} & set(launch.values)
    if launch.launcher is Launcher.PYTHON:
        if launch.module:
            return launch.target in _PREPARING_MODULES
        return not launch.target and bool(_SAYING & set(launch.head[1:]))
    if launch.launcher in (Launcher.ACCELERATE, Launcher.TUNE, Launcher.FABRIC):
        return not is_training(launch)
    if launch.launcher in (Launcher.TRL, Launcher.VLLM):
        return launch.target in ("", "env", "collect-env")
    return bool(asked) and not launch.target


def is_training(launch: Launch) -> bool:
    """Tell whether a launch is made by a launcher, rather than a program that somebody may run by the way."""
    head = launch.head
    trains = {
        Launcher.PYTHON: launch.module and launch.target in _SERVERS,
        Launcher.TUNE: "run" in head,
        Launcher.FABRIC: "run" in head,
        Launcher.ACCELERATE: head[-1].endswith("launch") and launch.target != "launch",
        Launcher.VLLM: launch.target == "serve",
        Launcher.RAY: "submit" in head,
    }
    return trains.get(launch.launcher, True)
