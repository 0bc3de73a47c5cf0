"""Where this system's packages come from, by its apt configuration: mirror, suite and keyring, as
entries for source packages of any Debian release.

`apt-get indextargets` says what is configured and in which entry of which file; only the keyring
has to be read from there. A suite of another release is taken to lie on the same mirror under the
same name but for the release's: `bookworm-security` becomes `trixie-security`.
"""

import os
import re
import subprocess
from pathlib import Path

_OS_RELEASE = "/etc/os-release"


def source_entries(release: str, environment: dict | None = None) -> list[str]:
    """Entries in apt's deb822 format, each for a suite of `release` on a mirror of the system's own
    release."""
    own = system_release()
    entries = []
    for target in _targets(environment):
        suite = target["release"]
        if own and re.match(rf"{re.escape(own)}(-|/|$)", suite):
            lines = ["Types: deb-src", f"URIs: {target['repo-uri']}", f"Suites: {release}{suite[len(own):]}", f"Components: {target['component']}"]
            signed = _signed_by(target["sourcesentry"])
            entries.append("\n".join([*lines, f"Signed-By: {signed}"] if signed else lines) + "\n")
    return list(dict.fromkeys(entries))


def system_release() -> str | None:
    """The code name of the release that this system is of."""
    found = re.search(r'^VERSION_CODENAME="?([\w-]+)', Path(_OS_RELEASE).read_text(), re.MULTILINE)
    return found.group(1) if found else None


def _targets(environment: dict | None) -> list[dict[str, str]]:
    """The system's configured lists of packages, also those that were never fetched."""
    listing = subprocess.run(["apt-get", "indextargets", "--no-release-info", "Created-By: Packages"], capture_output=True, text=True, env=environment or os.environ).stdout
    return [_fields(stanza) for stanza in listing.split("\n\n") if stanza.strip()]


def _fields(stanza: str) -> dict[str, str]:
    """The fields of a stanza by their names in small letters; a value may go on over lines that
    begin with a space, as a key that is given in full does."""
    text = re.sub(r"^#.*\n", "", stanza + "\n", flags=re.MULTILINE)
    return {name.lower(): value.rstrip("\n") for name, value in re.findall(r"^([\w-]+):[ \t]*(.*\n(?:[ \t].*\n)*)", text, re.MULTILINE)}


def _signed_by(entry: str) -> str | None:
    """The keyring, or the key, of an entry `FILE:NUMBER`: a stanza of a `.sources` file, or a line
    of a `.list` file."""
    path, _, number = entry.rpartition(":")
    text = Path(path).read_text()
    if path.endswith(".sources"):
        stanzas = [stanza for stanza in re.split(r"\n[ \t]*\n", text) if _fields(stanza)]
        return _fields(stanzas[int(number) - 1]).get("signed-by")
    found = re.search(r"signed-by=([^\s\]]+)", text.splitlines()[int(number) - 1], re.IGNORECASE)
    return found.group(1) if found else None
