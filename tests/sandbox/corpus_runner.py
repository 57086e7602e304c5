# SPDX-License-Identifier: Apache-2.0
"""Runs the corpus of escapes and edge cases; prints what went wrong as JSON.

A script of its own, with the standard library alone, so that the tests can run it under any Python
and as any user: python corpus_runner.py PACKAGE_PARENT ESCAPES [--python P] [--without landlock]
[--cpu_s 1]
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import pathlib
import secrets
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading

CLEAN = ("def f(x):\n    return [x, sorted('ba')]\n", [7], [[[7, ["a", "b"]]]])


class Surroundings:
    """What one attack may try to reach, and a look at whether it did."""

    def __init__(self) -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="escape-"))
        self.secret = "SECRET-" + secrets.token_hex(8)
        self.secret_file = self.folder / "secret"
        self.secret_file.write_text(self.secret)
        self.victim_file = self.folder / "victim"
        self.victim_file.write_text("precious")
        self.victim_file.chmod(0o600)
        self.scratch = self.folder / "scratch"
        self.scratch.mkdir()
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.tcp.setblocking(False)
        self.port = self.tcp.getsockname()[1]
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", self.port))
        self.udp.setblocking(False)
        self.victim = subprocess.Popen(["sleep", "1000"])

    def fill_in(self, value):
        if isinstance(value, list):
            return [self.fill_in(item) for item in value]
        if not isinstance(value, str):
            return value
        if value in ("@PORT@", "@VICTIM_PID@"):
            return self.port if value == "@PORT@" else self.victim.pid
        for mark, text in {
            "@SECRET_PATH@": str(self.secret_file),
            "@SECRET@": self.secret,
            "@TOKEN@": "TOKEN-" + self.secret,
            "@ENV@": os.environ["LMEVAL_CANARY"],
            "@SCRATCH@": str(self.scratch),
            "@VICTIM_FILE@": str(self.victim_file),
        }.items():
            value = value.replace(mark, text)
        return value

    def damage(self) -> list[str]:
        found = []
        if list(self.scratch.iterdir()):
            found.append("a file was made")
        if not self.victim_file.exists() or self.victim_file.read_text() != "precious":
            found.append("a file was deleted or changed")
        elif stat.S_IMODE(self.victim_file.stat().st_mode) != 0o600:
            found.append("a file's mode was changed")
        if self.victim.poll() is not None:
            found.append("a process was killed")
        for name, receive in (("tcp", self.tcp.accept), ("udp", lambda: self.udp.recv(1))):
            try:
                receive()
                found.append(f"{name} got out")
            except BlockingIOError:
                pass
        return found

    def close(self) -> None:
        self.victim.kill()
        self.victim.wait()
        self.tcp.close()
        self.udp.close()
        shutil.rmtree(self.folder)


def check(row: dict, escapes: pathlib.Path, sandbox) -> list[str]:
    """The faults found with one entry of the manifest."""
    from lmeval.sandbox import Job, extract_source

    code = extract_source((escapes / row["file"]).read_bytes().decode())
    around = Surroundings()
    try:
        pairs = around.fill_in(row["io_pairs"])
        job = Job(code, [x for x, _ in pairs], [[y] for _, y in pairs], mode=row["mode"])
        clean = Job(CLEAN[0], CLEAN[1], CLEAN[2])
        sandbox.start()
        worker = sandbox._pool[0].pid
        verdicts = sandbox.evaluate([job] * (2 if row.get("twice") else 1) + [clean])
        faults = around.damage()
        if sandbox._pool[0].pid != worker:
            faults.append("the worker was replaced")
    finally:
        around.close()
    verdict, after = verdicts[-2:]
    if verdict.score not in row.get("score_any", [row["score"]]):
        faults.append(f"score {verdict.score}, not {row['score']}: {verdict}")
    if verdict.outcome not in row["outcome"]:
        faults.append(f"outcome not in {row['outcome']}: {verdict}")
    if (after.score, after.outcome) != (1.0, "ok"):
        faults.append(f"the clean prediction after it: {after}")
    return faults


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("package_parent")
    parser.add_argument("escapes", type=pathlib.Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--without", action="append", default=[])
    parser.add_argument("--cpu_s", type=float, default=1.0)
    parser.add_argument("--wall_s", type=float, default=3.0)
    parser.add_argument("--threads", type=int, default=4)
    options = parser.parse_args()
    sys.path.insert(0, options.package_parent)
    from lmeval.sandbox import Limits, Sandbox

    os.environ["LMEVAL_CANARY"] = "CANARY-" + secrets.token_hex(8)
    rows = [
        json.loads(line) for line in (options.escapes / "manifest.jsonl").open(encoding="utf-8")
    ]
    limits = Limits(cpu_s=options.cpu_s, wall_s=options.wall_s)
    own = threading.local()
    sandboxes = []

    def check_in_thread(row: dict) -> list[str]:
        # One worker each, so that the clean prediction follows on the same worker.
        if not hasattr(own, "sandbox"):
            own.sandbox = Sandbox(limits, workers=1, python=options.python)
            own.sandbox._without = tuple(options.without)
            sandboxes.append(own.sandbox)
        return check(row, options.escapes, own.sandbox)

    with concurrent.futures.ThreadPoolExecutor(options.threads) as threads:
        results = list(threads.map(check_in_thread, rows))
    report = sandboxes[0].report()
    for sandbox in sandboxes:
        sandbox.close()
    faults = {row["file"]: found for row, found in zip(rows, results, strict=True) if found}
    print(json.dumps({"count": len(rows), "faults": faults, "report": report}, indent=1))


if __name__ == "__main__":
    main()
