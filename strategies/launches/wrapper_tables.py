"""The wrappers that are known, each with its own options.

Sources: `--help` of coreutils 9.7, util-linux 2.41, strace 6.13 and uv 0.13.9; the manual pages or documentation of the
others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from muster.strategies.launches.options import Table, table

__all__ = ["GDB", "MODULES", "PROGRAMS", "SCRIPTS", "Wrapper"]


@dataclass(frozen=True, slots=True)
class Wrapper:
    """How one wrapper is called.

    Attributes:
        options: its options.
        under: its subcommand, one of these; empty for none.
        before: its options in front of the subcommand.
        skips: words between its options and the program: the duration of `timeout`.
        needs: the word that must stand before the program: `--`.
        assigns: whether NAME=value may stand before the program.
        python: `all` where what it starts is a file or a module of Python, `files` where a word that ends with .py is.
        text: full name of an option whose value is a text for a shell.
        text_only: whether without that option it starts no program.
        keeps: full name of the option without which it takes variables away; "" where it keeps them.
        clears: full name of the switch with which it takes variables away, as a word `-` does; "" where none does.
        skipped: what the words between its options and the program look like, where that is known, and what they are.
        detaches: full names of switches with which it does not wait for what it starts; empty where it always waits.
        prefixed: whether the program may have a prefix `NAME:`.
        joined: whether its words are one text for a shell.
    """

    options: Table
    under: tuple[str, ...] = ()
    before: Table = field(default_factory=lambda: table(""))
    skips: int = 0
    needs: str = ""
    assigns: bool = False
    python: str = ""
    text: str = ""
    text_only: bool = False
    keeps: str = ""
    clears: str = ""
    skipped: tuple[re.Pattern[str] | None, str] = (None, "")
    detaches: frozenset[str] = frozenset()
    prefixed: bool = False
    joined: bool = False


_DURATION = re.compile(r"(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?[smhd]?|inf(inity)?", re.IGNORECASE)


def _plain(options: str = "", **rules: object) -> Wrapper:
    return replace(Wrapper(table(options)), **rules)  # type: ignore[arg-type]  # each is one of its attributes


_UV = table(
    """
        extra:+ no-extra:+ group:+ no-group:+ only-group:+ no-editable-package:+ env-file:+ w=with:+ with-editable:+
        with-requirements:+ package:+ python-platform: index:+ default-index: i=index-url: extra-index-url:+
        f=find-links:+ index-strategy: keyring-provider: P=upgrade-package:+ upgrade-group:+ resolution: prerelease:
        prerelease-package:+ fork-strategy: exclude-newer: exclude-newer-package:+ no-sources-package:+
        reinstall-package:+ link-mode: C,config-settings=config-setting:+ config-settings-package:+
        no-build-isolation-package:+ no-build-package:+ no-binary-package:+ cache-dir: refresh-package:+ p=python:
        color: allow-insecure-host:+ trusted-host:+ directory: project: config-file: from: python-preference:
        torch-backend: constraints:+ c=constraint:+ overrides:+ override:+ build-constraints:+ b=build-constraint:+
        lfs max-recursion-depth: all-extras dev no-dev only-dev no-default-groups all-groups m=module no-editable
        exact no-env-file isolated active no-active no-sync locked frozen s=script gui-script all-packages
        no-project no-index U=upgrade no-upgrade no-sources reinstall no-reinstall compile-bytecode
        no-compile-bytecode no-build-isolation no-build no-binary require-build-hashes no-require-build-hashes
        n=no-cache refresh no-refresh managed-python no-managed-python no-python-downloads q=quiet v=verbose
        system-certs native-tls offline no-progress no-config h=help inexact show-resolution no-workspace
    """,
    abbreviated=False,
)
GDB = _plain(
    """
    ex:+ iex:+ x=command:+ eval-command:+ q,quiet=silent batch nx n nw return-child-result args
""",
    needs="--args",
)
_CONDA = Wrapper(
    table(
        """
            n=name: p=prefix: cwd: r=root-prefix: e=env:+ a=attach: label: rc-file: d=detach v=verbose dev clean-env
            no-rc no-capture-output live-stream s debug-wrapper-scripts q=quiet y=yes no-env
        """
    ),
    under=("run",),
    before=table("r=root-prefix: q=quiet v=verbose no-plugins no-rc rc-file:"),
)
_SECRETS = _plain(
    """
        p=project: c=config: e=env: env-file:+ path: token: projectId: command: name-transformer: mount: account:
        s=scope: only-secrets: format: config-dir: fallback: domain: vault: no-masking preserve-env silent recursive
        watch include-imports no-fallback fallback-only fallback-readonly no-exit-on-missing-include override x
    """,
    under=("run",),
    text="command",
)
PROGRAMS: Mapping[str, Wrapper] = {
    "env": _plain(
        """
            i=ignore-environment 0=null u=unset:+ C=chdir: S=split-string: v=debug block-signal? default-signal?
            ignore-signal? list-signal-handling a=argv0:
        """,
        assigns=True,
    ),
    "nohup": _plain(),
    "nice": _plain("n=adjustment:"),
    "ionice": _plain("c=class: n=classdata: t=ignore"),
    "chrt": _plain(
        """
            b=batch d=deadline e=ext f=fifo i=idle o=other r=rr R=reset-on-fork T=sched-runtime: P=sched-period:
            D=sched-deadline: a=all-tasks v=verbose
        """,
        skips=1,
    ),
    "taskset": _plain("a=all-tasks c=cpu-list", skips=1),
    "numactl": _plain(
        """
            C=physcpubind: N=cpunodebind: m=membind: l=localalloc i=interleave: w=weighted-interleave: p=preferred:
            P=preferred-many: a=all b=balancing H=hardware s=show
        """
    ),
    **dict.fromkeys(("tini", "tini-static", "docker-init"), _plain("p: e:+ s v w g l h version")),
    "dumb-init": _plain("c=single-child r=rewrite:+ v=verbose"),
    "catatonit": _plain("g P L V"),
    "timeout": _plain(
        "preserve-status p foreground f k=kill-after: s=signal: v=verbose",
        skips=1,
        skipped=(_DURATION, "its duration"),
    ),
    "time": _plain("f=format: o=output: a=append v=verbose p=portability q=quiet"),
    "stdbuf": _plain("i=input: o=output: e=error:"),
    "unbuffer": _plain("p"),
    "setsid": _plain("c=ctty f=fork w=wait"),
    "tmux": Wrapper(
        table("d A D E P X c: e:+ F: f: n: s: t: x: y:"),
        under=("new-session", "new"),
        before=table("2 C D l N u v c: f: L: S: T:"),
        detaches=frozenset({"d"}),
        joined=True,
    ),
    "screen": _plain(
        "a A c: d D e: f h: i l L m O p: q Q r R s: S: t: T: U v x X",
        detaches=frozenset({"d", "D"}),
    ),
    "catchsegv": _plain(),
    "eatmydata": _plain(),
    "chroot": _plain("groups: userspec: skip-chdir", skips=1),
    "setpriv": _plain(
        """
            reuid: euid: ruid: regid: egid: rgid: groups: inh-caps: ambient-caps: bounding-set: securebits:
            pdeathsig: selinux-label: apparmor-profile: seccomp-filter: landlock-access: landlock-rule: clear-groups
            keep-groups init-groups d=dump nnp=no-new-privs reset-env ptracer:
        """
    ),
    "prlimit": _plain(),
    "choom": _plain("n=adjust:"),
    "cgexec": _plain("g:+ sticky"),
    "gosu": _plain(skips=1),
    "su-exec": _plain(skips=1),
    "sudo": _plain(
        """
            u=user: g=group: h=host: p=prompt: C=close-from: r=role: t=type: T=command-timeout: D=chdir: R=chroot:
            U: E=preserve-env? n=non-interactive H=set-home b=background k=reset-timestamp P=preserve-groups S=stdin
            A=askpass
        """,
        assigns=True,
        keeps="preserve_env",
    ),
    "runuser": _plain(
        """
            u=user: m,p=preserve-environment w=whitelist-environment: g=group: G=supp-group: c=command: f=fast
            s=shell: P=pty l=login
        """,
        text="command",
        clears="login",
    ),
    "su": replace(
        Wrapper(
            table(
                """
                    m,p=preserve-environment w=whitelist-environment: g=group: G=supp-group: c=command: l=login
                    f=fast s=shell: P=pty session-command:
                """,
                anywhere=True,
            )
        ),
        text="command",
        text_only=True,
        clears="login",
    ),
    "flock": _plain(
        """
            s=shared x,e=exclusive u=unlock n,nb=nonblock w,wait=timeout: E=conflict-exit-code: o=close F=no-fork
            verbose
        """,
        skips=1,
    ),
    "unshare": _plain(
        """
            m=mount? u=uts? i=ipc? n=net? p=pid? U=user? C=cgroup? T=time? f=fork r=map-root-user c=map-current-user
            map-auto map-user: map-group: map-users: map-groups: kill-child? mount-proc? propagation: setgroups:
            keep-caps R=root: w=wd: S=setuid: G=setgid: monotonic: boottime:
        """
    ),
    "script": Wrapper(
        table(
            """
                I=log-in: O=log-out: B=log-io: T=log-timing: t=timing? m=logging-format: a=append c=command:
                e=return f=flush force E=echo: o=output-limit: q=quiet
            """,
            anywhere=True,
        ),
        text="command",
        text_only=True,
    ),
    "xvfb-run": _plain("""
        a=auto-servernum e=error-file: f=auth-file: n=server-num: l=listen-tcp p=xauth-protocol: s=server-args:
        w=wait:
    """),
    "dbus-run-session": _plain("config-file: dbus-daemon:"),
    "nvidia_entrypoint.sh": _plain(),
    "_entrypoint.sh": _plain(),
    "with-contenv": _plain(),
    **dict.fromkeys(
        ("wait-for-it", "wait-for-it.sh", "wait-for", "wait-for.sh"),
        _plain("h=host: p=port: t=timeout: s=strict q=quiet", needs="--"),
    ),
    "strace": _plain(
        """
            e:+ E=env:+ p=attach: u=user: b=detach-on: I=interruptible: P=trace-path:+ a=columns: o=output:
            s=string-limit: X=const-print-style: O=summary-syscall-overhead: S=summary-sort-by: U=summary-columns:
            D=daemonize? f=follow-forks output-separately z=successful-only Z=failed-only i=instruction-pointer
            k=stack-traces n=syscall-number A=output-append-mode q=quiet? r=relative-timestamps?
            t=absolute-timestamps? T=syscall-times? v=no-abbrev x strings-in-hex? y=decode-fds? Y=decode-pids?
            c=summary-only C=summary w=summary-wall-clock d=debug seccomp-bpf trace: abbrev: verbose: raw: signal:
            status: inject: fault: kvm:
        """
    ),
    "ltrace": _plain(
        """
            a=align: A: b,no-signals=no-signal c C=demangle D=debug: e:+ f F=config:+ i l=library:+ L n=indent:
            o=output: p: r s: S t T u: w=where: x:
        """
    ),
    "perf": _plain(
        """
            e=event:+ F=freq: o=output: g c=count: call-graph: a=all-cpus C=cpu: p=pid: t=tid: r=repeat: d=detailed
            I=interval-print: x=field-separator: m=mmap-pages: G=cgroup: N=no-buildid-cache s=stat i=no-inherit
            q=quiet v=verbose D=delay: k=clockid: M=metrics: per-core per-thread per-socket A=no-aggr b=branch-any
            j=branch-filter: n=null W=weight R=raw-samples z=compression-level? switch-output? all-user all-kernel
        """,
        under=("stat", "record", "trace"),
    ),
    "valgrind": _plain("tool: log-file: log-fd: suppressions: q=quiet v=verbose s"),
    **dict.fromkeys(("gdb", "cuda-gdb", "rocgdb"), GDB),
    "compute-sanitizer": _plain("""
        tool: o=log-file: save: kernel-name: launch-timeout: target-processes: leak-check: print-level:
        report-api-errors:
    """),
    "nsys": _plain(
        """
            t=trace: o=output: f=force-overwrite: s=sample: w=show-output: c=capture-range: x=stop-on-exit: y=delay:
            d=duration: e=env-var: b=backtrace: n=inherit-environment: p=nvtx-capture: k,kill=kill: a=after: i:
            capture-range-end: cuda-memory-usage: cuda-graph-trace: cudabacktrace: cuda-um-cpu-page-faults:
            cuda-um-gpu-page-faults: cuda-flush-interval: cpuctxsw: cpu-core-events: cpu-socket-events:
            cpu-core-metrics: cpu-socket-metrics: event-sample: event-sampling-interval: export:
            flush-on-cudaprofilerstop: ftrace: ftrace-keep-user-config: gpu-metrics-devices: gpu-metrics-device:
            gpu-metrics-frequency: gpu-metrics-set: gpuctxsw: hotkey-capture: ib-net-info-devices:
            ib-net-info-files: ib-net-info-output: ib-switch-metrics-devices: mpi-impl: nic-metrics:
            nvtx-domain-include: nvtx-domain-exclude: opengl-gpu-workload: os-events: osrt-threshold:
            osrt-backtrace-depth: osrt-backtrace-stack-size: osrt-backtrace-threshold: osrt-file-access:
            process-scope: python-backtrace: python-functions-trace: python-nvtx-annotations: python-sampling:
            python-sampling-frequency: pytorch: resolve-symbols: retain-etw-files: run-as: samples-per-backtrace:
            sampling-frequency: sampling-period: sampling-trigger: session: session-new: soc-metrics:
            soc-metrics-frequency: soc-metrics-set: start-agent: start-frame-index: start-later: stats: syscall:
            trace-fork-before-exec: vulkan-gpu-workload: wait: wddm-additional-events: dask: enable:
            duration-frames: debug-symbols: command-file: xhv-trace: storage-metrics: cuda-event-trace:
            cuda-trace-all-apis: cuda-trace-scope: auto-report-name: injection-use-detours: nvtx-injection-library:
            h=help
        """,
        under=("profile", "launch"),
    ),
    **dict.fromkeys(
        ("ncu", "nv-nsight-cu-cli"),
        _plain(
            """
                o=export: f=force-overwrite set:+ section:+ section-folder: section-folder-recursive: metrics:
                target-processes: target-processes-filter: k=kernel-name: kernel-name-base: kernel-id:
                s=launch-skip: c=launch-count: launch-skip-before-match: i=import: nvtx nvtx-include:+
                nvtx-exclude:+ call-stack import-source: page: csv log-file: replay-mode: app-replay-buffer:
                app-replay-match: app-replay-mode: clock-control: cache-control: kill: devices: mode: config-file:
                config-file-path: p=port: max-connections: range-filter: graph-profiling: range-replay-options:
                rule:+ apply-rules: source-folders: print-summary: print-units: print-fp print-kernel-base:
                print-details: print-metric-name: check-exit-code: profile-from-start: disable-profiler-start-stop
                verbose quiet resolve-source-file: pm-sampling-interval: pm-sampling-buffer-size:
                pm-sampling-max-passes: sampling-interval: sampling-buffer-size: sampling-max-passes:
                warp-sampling-interval: injection-path-32: injection-path-64: support-32bit preload-library:
                null-stdin
            """
        ),
    ),
    "nvprof": _plain(
        """
            o=export-profile: f=force-overwrite profile-child-processes profile-all-processes profile-from-start:
            log-file: metrics:+ events:+ kernels:+ devices: aggregate-mode: analysis-metrics print-gpu-trace
            print-api-trace print-gpu-summary print-summary csv s=print-summary t=timeout: u=normalized-time-unit:
            unified-memory-profiling: openacc-profiling: cpu-profiling: track-memory-allocations:
            concurrent-kernels: demangling: replay-mode: trace:
        """
    ),
    **dict.fromkeys(
        ("rocprof", "rocprofv2"),
        _plain(
            """
                i=input: o=output-file: d=output-directory: t: m: timestamp: basenames: stats tool-version:
                sys-trace hip-trace hsa-trace kernel-trace roctx-trace roctx-rename ctx-wait: ctx-limit: heartbeat:
                verbose plugin: plugin-version: hip-api hip-activity hsa-api hsa-activity parallel-kernels
                trace-start: trace-period: flush-rate: obj-tracking:
            """,
        ),
    ),
    "rocprofv3": _plain(
        """
            i=input: o=output-file: d=output-directory: f=output-format:+ r=runtime-trace s=sys-trace hip-trace
            hip-runtime-trace hip-compiler-trace marker-trace kernel-trace memory-copy-trace memory-allocation-trace
            scratch-memory-trace hsa-trace hsa-core-trace hsa-amd-trace hsa-image-trace hsa-finalizer-trace
            rccl-trace rocdecode-trace rocjpeg-trace kokkos-trace S=stats D=summary summary-per-domain
            summary-groups:+ summary-output-file: u=summary-units: kernel-include-regex: kernel-exclude-regex:
            kernel-iteration-range:+ pmc:+ E=extra-counters: collection-period:+ P log-level: T=truncate-kernels
            M=mangled-kernels L=list-avail group-by-queue
        """,
        needs="--",
    ),
    "py-spy": _plain(
        """
            o=output: r=rate: d=duration: f=format: s=subprocesses F=function g=gil i=idle t=threads n=native
            nolineno nonblocking full-filenames
        """,
        under=("record", "top"),
        needs="--",
    ),
    "austin": _plain("""
        C=children e=exclude-empty f=full g=gc h=heap: i=interval: m=memory o=output: P=pipe p=pid: s=sleepless
        t=timeout: x=exposure: w=where: b=binary
    """),
    "memray": _plain(
        """
            o=output: f=force live live-remote p=live-port: native follow-fork trace-python-allocators q=quiet
            aggregate compress-on-exit no-compress c m=module
        """,
        under=("run",),
        python="all",
    ),
    "coverage": _plain(
        """
            a=append branch concurrency: context: data-file: include: omit: L=pylib p=parallel-mode source: timid
            rcfile: debug: d m=module save-signal: no-ctrace
        """,
        under=("run",),
        python="all",
    ),
    "viztracer": _plain(
        """
            o=output_file: output_dir: tracer_entries: tracer: v=verbose? q=quiet max_stack_depth: include_files:+
            exclude_files:+ log_func_args log_func_retval log_print log_gc log_async log_sparse log_exception
            log_func_entry log_torch log_subprocess log_multiprocess ignore_c_function ignore_frozen
            ignore_multiprocess minimize_memory min_duration: pid_suffix align_now dump_raw sanitize_function_name
            open patch_only unique_output_file u=unique_output_file m=module rcfile: plugins:+ log_var:+
            log_number:+ log_attr:+ log_func_exec:+ trace_self
        """,
        python="all",
    ),
    "scalene": _plain(
        """
            outfile: o: html json cli web port: column-width: reduced-profile profile-interval: cpu gpu memory
            cpu-only cpu-percent-threshold: cpu-sampling-rate: malloc-threshold: allocation-sampling-window:
            program-path: profile-only: profile-exclude: use-virtual-time profile-all on off no-browser viewer c:
            config: stacks
        """,
        python="all",
    ),
    "kernprof": _plain(
        """
        l=line-by-line b=builtin o=outfile: s=setup: v=view u=unit: z=skip-zero p=prof-mod: r=rich q i? m=module
    """,
        python="all",
    ),
    "debugpy": _plain(
        """
        listen: connect: wait-for-client configure-subprocess: log-to: log-to-stderr parent-session-pid:
        adapter-access-token: m=module
    """,
        python="all",
    ),
    **dict.fromkeys(("ddtrace-run",), _plain("d=debug i=info p=profiling v=version")),
    "opentelemetry-instrument": _plain(
        """
            service_name: traces_exporter: metrics_exporter: logs_exporter: exporter_otlp_endpoint:
            exporter_otlp_protocol: exporter_otlp_traces_endpoint: exporter_otlp_metrics_endpoint: id_generator:
            resource_attributes: propagators: python_disabled_instrumentations: exporter_otlp_headers:
            exporter_otlp_insecure: exporter_otlp_timeout: traces_sampler: traces_sampler_arg: log_level: disabled:
            python_configurator: python_distro:
        """
    ),
    "newrelic-admin": _plain(under=("run-program",)),
    "dotenv": Wrapper(table("override no-override"), under=("run",), before=table("f=file: q=quote: e=export:")),
    **dict.fromkeys(("doppler", "op", "infisical", "teller"), _SECRETS),
    **dict.fromkeys(("chamber", "aws-vault", "berglas"), _plain(under=("exec",), needs="--")),
    "uv": Wrapper(_UV, under=("run",), before=_UV, python="files"),
    "uvx": Wrapper(_UV),
    "poetry": Wrapper(
        table(""),
        under=("run",),
        before=table("""
            q=quiet v=verbose? n=no-interaction no-plugins no-cache P=project: C=directory: ansi no-ansi
        """),
    ),
    "pipenv": Wrapper(
        table("system q=quiet v=verbose"), under=("run",), before=table("python: q=quiet v=verbose bare")
    ),
    "pdm": Wrapper(
        table("s=site-packages venv: recreate g=global p=project: q=quiet v=verbose n=non-interactive"),
        under=("run",),
        before=table("c=config: v=verbose q=quiet n=non-interactive I=ignore-python no-lock"),
        python="files",
    ),
    "hatch": Wrapper(
        table(""),
        under=("run",),
        before=table("""
            e=env: p=project: v=verbose q=quiet color no-color interactive no-interactive data-dir: cache-dir:
            config:
        """),
        prefixed=True,
    ),
    "rye": Wrapper(table("l=list pyproject:"), under=("run",)),
    "pixi": Wrapper(
        table(
            """
                e=environment: m=manifest-path: w=workspace: frozen locked as-is no-install x=executable clean-env
                skip-deps n=dry-run revalidate force-activate no-completions concurrent-downloads:
                concurrent-solves: pinning-strategy: auth-file: pypi-keyring-provider: run-post-link-scripts
                tls-no-verify no-progress use-environment-activation-cache q=quiet v=verbose color: tls-root-certs:
            """
        ),
        under=("run", "r"),
        before=table("v=verbose q=quiet color: no-progress"),
    ),
    **dict.fromkeys(("conda", "mamba", "micromamba"), _CONDA),
    "direnv": _plain(under=("exec",), skips=1),
    "mise": _plain("c=command: j=jobs: raw q=quiet y=yes", under=("exec", "x"), needs="--"),
}
"""By the name of the program."""
MODULES: Mapping[str, Wrapper] = {
    "cProfile": _plain("o=outfile: s=sort: m", python="all"),
    "profile": _plain("o=outfile: s=sort: m", python="all"),
    "profiling.tracing": _plain("o=outfile: s=sort: m", python="all"),
    "pdb": _plain("c=command:+ m", python="all"),
    "trace": _plain(
        """
            c=count t=trace l=listfuncs T=trackcalls f=file: C=coverdir: m=missing s=summary g=timing R=no-report
        """
        "ignore-module:+ ignore-dir:+ module",
        python="all",
    ),
    "tracemalloc": _plain(python="all"),
    "torch.utils.bottleneck": _plain(python="all"),
    "ddtrace.commands.ddtrace_run": PROGRAMS["ddtrace-run"],
    **{
        name: PROGRAMS[name]
        for name in (
            "coverage",
            "debugpy",
            "memray",
            "viztracer",
            "scalene",
            "kernprof",
            "poetry",
            "pipenv",
            "pdm",
            "hatch",
            "uv",
            "dotenv",
        )
    },
}
"""By the name of the module that `python -m` runs."""
SCRIPTS = frozenset(
    {"torchrun", "accelerate", "accelerate-launch", "deepspeed", "composer", "fabric", "trl", "tune", "vllm"}
)
"""Programs that are scripts of Python, which `python $(which torchrun)` runs."""
