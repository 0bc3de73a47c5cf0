"""Where source packages are fetched from: the system's own mirrors, keyrings and suites, and no
host that is named in the project."""

import os
import re
import shutil
import tempfile
import unittest
from pathlib import Path

from cluster import mirrors

_HERE = Path(__file__).resolve().parents[1]
_KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mDMEYCQjIxYJKwYBBAHaRw8BAQ\n -----END PGP PUBLIC KEY BLOCK-----"


class Mirrors(unittest.TestCase):
    """With a configuration of apt's own; nothing is fetched."""

    def setUp(self) -> None:
        if not shutil.which("apt-get") or mirrors.system_release() is None:
            self.skipTest("no system with apt and a release of its own name")
        self.release = mirrors.system_release()
        self.folder = Path(tempfile.mkdtemp(prefix="pagecast-apt-"))
        self.addCleanup(shutil.rmtree, self.folder)
        for name in ("etc/apt.conf.d", "etc/sources.list.d", "etc/preferences.d", "etc/trusted.gpg.d", "lists/partial"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "conf").write_text(f'Dir::Etc "{self.folder}/etc";\nDir::State::lists "{self.folder}/lists";\n')
        self.environment = {**os.environ, "APT_CONFIG": str(self.folder / "conf")}

    def entries(self) -> list[dict]:
        """The entries for a release that this system is not."""
        found = mirrors.source_entries("elsewhere", self.environment)
        return [dict(re.findall(r"^([\w-]+): *(.*(?:\n .*)*)", entry, re.MULTILINE)) for entry in found]

    def test_a_list(self) -> None:
        """A mirror with a keyring and one without, and others that have nothing to do with the
        system's release."""
        (self.folder / "etc/sources.list").write_text(f"""# deb http://old.example/debian {self.release} main
deb [arch=amd64 signed-by=/keys/ours.gpg] https://mirror.example/debian {self.release} main
deb https://mirror.example/security {self.release}-security main
deb https://tools.example/apt tools-{self.release} main
""")
        self.assertEqual([
            {"Types": "deb-src", "URIs": "https://mirror.example/debian/", "Suites": "elsewhere", "Components": "main", "Signed-By": "/keys/ours.gpg"},
            {"Types": "deb-src", "URIs": "https://mirror.example/security/", "Suites": "elsewhere-security", "Components": "main"}], self.entries())

    def test_stanzas(self) -> None:
        """The second stanza has a key and no keyring."""
        (self.folder / "etc/sources.list.d/system.sources").write_text(f"""# ours
Types: deb
URIs: https://mirror.example/debian
Suites: {self.release} {self.release}-updates
Components: main
Signed-By: /keys/ours.gpg

Types: deb deb-src
URIs: https://mirror.example/security
Suites: {self.release}-security
Components: main
Signed-By:
 {_KEY}
""")
        found = self.entries()
        self.assertEqual(["elsewhere", "elsewhere-updates", "elsewhere-security"], [entry["Suites"] for entry in found])
        self.assertEqual(["/keys/ours.gpg"] * 2, [entry["Signed-By"] for entry in found[:2]])
        self.assertIn(_KEY, found[2]["Signed-By"])

    def test_no_host_is_named(self) -> None:
        """Not in any file of this host."""
        for path in _HERE.rglob("*"):
            if path.suffix in (".py", ".c", ".h", ".rs", ".toml", ".md") and path.is_file() and path != Path(__file__):
                self.assertNotRegex(path.read_text(), r"https?://[\w.-]*(debian\.org|postgresql\.org|crates\.io|pypi\.org)", str(path))
