"""Prints a CycloneDX bill of materials of an image of Muster.

It runs inside the image, with the image's Python and only the standard library. So it lists what the image really
holds, and nothing has to be added to the image or to the machine that asks:

    docker run --rm -i --entrypoint python3 IMAGE - IMAGE < images/sbom.py > build/sbom.json
    kubectl -n muster-system exec -i deploy/muster -- python3 - < images/sbom.py > build/sbom.json

It lists the Python distributions of the environment and of the base, and the base's Debian packages, with the licences
that distributions state and the distributions that they need. It holds no time and no random value: the same image
gives the same bytes.

Source: CycloneDX 1.6, https://cyclonedx.org/docs/1.6/json/; package URLs, https://github.com/package-url/purl-spec.
"""
# ruff: noqa: INP001 - a stand-alone program, piped into another Python

from __future__ import annotations

import json
import platform
import re
import sys
import sysconfig
import urllib.parse
import uuid
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

_DPKG = Path("/var/lib/dpkg/status")
_RELEASE = Path("/etc/os-release")
_SERIAL = uuid.UUID("6f2c2ab4-6d1c-4d7e-9f3c-2f6b7e1d0a55")  # Muster's own namespace, for serial numbers
_MUSTER = "muster-admission"
_EXTRAS = ("cluster",)  # of Muster, in the image
_LONGEST = 100  # characters of a licence's name; some distributions put the whole text there

Component = dict[str, Any]


def main() -> None:
    """Print the bill of materials."""
    sys.stdout.write(json.dumps(bill(*sys.argv[1:]), indent=2, sort_keys=True) + "\n")


def bill(image: str = "") -> dict[str, Any]:
    """Return the whole document, a CycloneDX 1.6 BOM.

    Args:
        image: the name of the image that it is about; without one it is about Muster, or about Python where Muster is
            not installed.
    """
    environment = {name(each): each for each in metadata.distributions()}
    muster = None if image else environment.get(_MUSTER)
    found = {pypi(each): each for each in (*beneath(), *environment.values()) if each is not muster}
    subject = {**distribution(muster), "type": "application"} if muster else interpreter()
    components = [*map(distribution, found.values()), *debian(), *([interpreter()] if muster or image else [])]
    if image:
        short, _, version = image.rpartition("/")[2].partition(":")
        subject = {"type": "container", "name": short, "version": version, "bom-ref": image}
    needs = [dependency(each, environment) for each in (*found.values(), *([muster] if muster else []))]
    content = {
        "components": sorted(components, key=lambda each: str(each["bom-ref"])),
        "dependencies": sorted(needs, key=lambda each: str(each["ref"])),
        "metadata": {"component": subject},
    }
    serial = uuid.uuid5(_SERIAL, json.dumps(content, sort_keys=True))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "serialNumber": f"urn:uuid:{serial}",
    } | content


def beneath() -> Iterator[metadata.Distribution]:
    """Yield the distributions of the interpreter below a virtual environment, such as pip."""
    if sys.prefix != sys.base_prefix:
        base = {"base": sys.base_prefix, "platbase": sys.base_prefix}
        yield from metadata.distributions(path=[sysconfig.get_path("purelib", vars=base)])


def distribution(found: metadata.Distribution) -> Component:
    """Return one Python distribution as a component."""
    url = pypi(found)
    component = {"type": "library", "name": found.name, "version": found.version, "bom-ref": url, "purl": url}
    about = found.metadata
    if "License-Expression" in about:
        return component | {"licenses": [{"expression": about["License-Expression"]}]}
    classified = {each.rpartition(" :: ")[2] for each in about.get_all("Classifier") or () if "License ::" in each}
    text = " ".join(about["License"].split()) if "License" in about else ""
    names = sorted(classified) or ([text] if 0 < len(text) <= _LONGEST else [])
    return component | ({"licenses": [{"license": {"name": each}} for each in names]} if names else {})


def dependency(found: metadata.Distribution, present: Mapping[str, metadata.Distribution]) -> dict[str, Any]:
    """Return the installed distributions that this one requires, without its extras, but with those of Muster."""
    extras = [f'extra == "{each}"' for each in (_EXTRAS if name(found) == _MUSTER else ())]
    required = (each.strip().replace("'", '"') for each in found.requires or ())
    wanted = [each for each in required if "extra ==" not in each or any(extra in each for extra in extras)]
    names = {normal(re.split(r"[^A-Za-z0-9._-]", each, maxsplit=1)[0]) for each in wanted}
    return {"ref": pypi(found), "dependsOn": sorted(pypi(present[each]) for each in names if each in present)}


def debian() -> Iterator[Component]:
    """Yield the installed Debian packages; none where the base is not Debian."""
    if not _DPKG.is_file():
        return
    system = release()
    kind, distro = system.get("ID", "debian"), f"{system.get('ID', 'debian')}-{system.get('VERSION_ID', '')}"
    for paragraph in _DPKG.read_text(encoding="utf-8").split("\n\n"):
        fields = dict(re.findall(r"^(Package|Version|Architecture|Status|Source): (.+)$", paragraph, re.MULTILINE))
        if not fields.get("Status", "").endswith(" installed"):
            continue
        package, version = fields["Package"], fields["Version"]
        query = urllib.parse.urlencode({"arch": fields["Architecture"], "distro": distro})
        url = f"pkg:deb/{kind}/{quoted(package)}@{quoted(version)}?{query}"
        component = {"type": "library", "name": package, "version": version, "bom-ref": url, "purl": url}
        yield component | {"properties": [{"name": "debian:source", "value": fields.get("Source", package)}]}


def interpreter() -> Component:
    """Return Python itself, which an image may have without a Debian package."""
    version = platform.python_version()
    url = f"pkg:generic/cpython@{version}"
    component = {"type": "platform", "name": "cpython", "version": version, "bom-ref": url, "purl": url}
    return component | {"licenses": [{"license": {"id": "Python-2.0.1"}}]}


def release() -> dict[str, str]:
    """Return the members of /etc/os-release."""
    text = _RELEASE.read_text(encoding="utf-8") if _RELEASE.is_file() else ""
    return {key: value.strip('"') for key, _, value in (line.partition("=") for line in text.splitlines())}


def pypi(found: metadata.Distribution) -> str:
    """Return the package URL of a distribution, which is also its reference in the bill."""
    return f"pkg:pypi/{name(found)}@{quoted(found.version)}"


def name(found: metadata.Distribution) -> str:
    """Return a distribution's name as PyPI compares it."""
    return normal(found.name)


def normal(written: str) -> str:
    """Return a name as PyPI compares it."""
    return re.sub(r"[-_.]+", "-", written).lower()


def quoted(text: str) -> str:
    """Return an encoded part of a package URL; the specification leaves the colon as it is."""
    return urllib.parse.quote(text, safe=":")


main()
