"""The web page in Debian's Chromium, through Playwright: `page_test.py SUBJECT`, a file of page/ or `types`.

The pages come from `fake_server`, which is the real server over scripted answers, and for one chat from the tiny model.
The npm packages are installed once, at the versions of page/package-lock.json. Without them, Node.js or Chromium a subject
is skipped with the reason.

    page_test.py screenshots     takes the pictures of the README anew (fonts-inter and fonts-jetbrains-mono make them
                                 look alike everywhere)
"""
import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

PACKAGES = Path(os.environ["STRATA_PAGE_PACKAGES"])
SOURCE = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent / "page"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
OLDEST_NODE = 18
SKIPPED = 77


def skip(reason):
    print("SKIPPED:", reason)
    sys.exit(SKIPPED)


def check_node():
    for tool in ("node", "npm"):
        if shutil.which(tool) is None:
            skip(f"{tool} is not installed")
    version = subprocess.run(["node", "--version"], text=True, stdout=subprocess.PIPE, check=True).stdout
    if int(version.lstrip("v").split(".")[0]) < OLDEST_NODE:
        skip(f"Node.js {version.strip()} is older than {OLDEST_NODE}")


def install():
    """The packages beside a copy of page/, for whichever subject comes first."""
    PACKAGES.mkdir(parents=True, exist_ok=True)
    lock = (HERE / "package-lock.json").read_text()
    stamp = PACKAGES / "installed"
    with open(PACKAGES / "lock", "w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        for file in HERE.iterdir():
            shutil.copy(file, PACKAGES / file.name)
        if stamp.is_file() and stamp.read_text() == lock:
            return
        command = ["npm", "install", "--no-save", "--omit=optional", "--ignore-scripts", "--no-audit", "--no-fund"]
        done = subprocess.run(command, cwd=PACKAGES, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        if done.returncode != 0:
            skip("the npm packages could not be installed: " + " ".join(done.stdout.split())[-300:])
        stamp.write_text(lock)


def main():
    subject = sys.argv[1]
    check_node()
    install()
    if subject == "types":
        compiler = PACKAGES / "node_modules/typescript/bin/tsc"
        return subprocess.run(["node", compiler, "--project", SOURCE / "src/server/page"]).returncode
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        skip("Chromium is not installed")
    environment = {**os.environ, "STRATA_BROWSER": browser, "STRATA_IMAGES": str(SOURCE / "docs" / "images")}
    return subprocess.run(["node", f"{subject}.mjs"], cwd=PACKAGES, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
