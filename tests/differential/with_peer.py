#!/usr/bin/env python3
"""Installs the pinned peer package once and runs a comparison with it.

  with_peer.py FOLDER COMMAND...     every {package} in COMMAND becomes the folder, {libs} its libraries

Exits 77 (skipped) when the package cannot be had.
"""
import os
import shutil
import subprocess
import sys

PACKAGE = "node-llama-cpp@3.22.1"

folder = os.path.abspath(sys.argv[1])
libs = os.path.join(folder, "node_modules/@node-llama-cpp/linux-x64/bins/linux-x64")
if not os.path.isdir(libs):
    if shutil.which("npm") is None:
        print("SKIPPED: npm is not installed")
        sys.exit(77)
    done = subprocess.run(["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", folder, PACKAGE],
                          capture_output=True, text=True)
    if done.returncode != 0 or not os.path.isdir(libs):
        print("SKIPPED: the package %s could not be installed: %s" % (PACKAGE, done.stderr.strip()[-300:]))
        sys.exit(77)
command = [part.replace("{package}", folder).replace("{libs}", libs) for part in sys.argv[2:]]
sys.exit(subprocess.run(command).returncode)
