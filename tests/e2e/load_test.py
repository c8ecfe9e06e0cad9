"""Many clients at once against `fake_server`: nobody starves, nothing leaks, /health stays quick.

    load_test.py [--seconds N]      N seconds of load, 12 without it; ten minutes is the long form

500 connections stay open and ask now and then; 50 streams wait in one queue and are served in the order in which the
server took them; others connect, ask and leave at random moments.
"""
import argparse
import json
import multiprocessing
import os
import random
import re
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

FAKE_SERVER = os.environ["STRATA_FAKE_SERVER"]
STANDING, QUEUED, P99_MS = 500, 50, 50.0


def request(method, path, body=None):
    data = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n"
    if body is not None:
        head += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n"
    return head.encode() + b"\r\n" + data


def chat(text, stream=True):
    return request("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": text}], "stream": stream})


def connect(port):
    client = socket.create_connection(("127.0.0.1", port), timeout=60)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


def ask_health(port, end, results):
    """One connection that asks again and again; a process of its own, which the other clients do not hold up."""
    answer_ms, late_ms, waiting, fault = [], [], 0, None
    client = connect(port)
    while time.monotonic() < end and not fault:
        begin = time.perf_counter()
        client.sendall(request("GET", "/health"))
        answer = client.recv(65536)
        answer_ms.append((time.perf_counter() - begin) * 1000)
        if not answer.startswith(b"HTTP/1.1 200"):
            fault = f"health: {answer[:100]}"
            continue
        waiting = max(waiting, json.loads(answer.partition(b"\r\n\r\n")[2])["waiting"])
        begin = time.perf_counter()
        time.sleep(0.01)
        late_ms.append((time.perf_counter() - begin) * 1000 - 10)
    results.put((answer_ms, late_ms, waiting, fault))


class Load:
    def __init__(self, port, pid):
        self.port, self.pid = port, pid
        self.failures = []
        self.rounds = 0
        self.left = 0

    def connect(self):
        return connect(self.port)

    def check(self, condition, what):
        if not condition:
            self.failures.append(what)

    def memory_kib(self):
        return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{self.pid}/status").read_text()).group(1))

    def descriptors(self):
        """Of the server, once closed connections have gone: when the number stays for a while."""
        known, since = -1, 0
        patience = time.monotonic() + 60
        while time.monotonic() < patience and (known < 0 or time.monotonic() - since < 2.5):
            now = len(os.listdir(f"/proc/{self.pid}/fd"))
            if now != known:
                known, since = now, time.monotonic()
            time.sleep(0.1)
        return known

    def ask_all(self, clients, pause):
        for client in clients:
            client.sendall(request("GET", "/health"))
            self.check(client.recv(65536).startswith(b"HTTP/1.1 200"), "a standing connection got no answer")
            time.sleep(pause)

    def keep_asking(self, clients, end):
        """Every connection is used again before the server would close it for being idle."""
        while time.monotonic() < end:
            self.ask_all(clients, 0.02)

    def come_and_go(self, end, seed):
        """Clients that ask for something long and leave before it ends."""
        choice = random.Random(seed)
        while time.monotonic() < end:
            client = self.connect()
            client.sendall(chat("leaver", choice.random() < 0.7))
            if choice.random() < 0.5:
                client.settimeout(choice.random() * 0.2)
                try:
                    client.recv(4096)
                except TimeoutError:
                    pass
            if choice.random() < 0.3:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset
            client.close()
            self.left += 1
            time.sleep(choice.random() * 0.05)

    def queue_round(self, in_turn):
        """Streams that come together: each is answered in full, in the order in which they were taken. `in_turn`: a
        client asks when the one before it has the head of its answer, so that this order is known."""
        selector = selectors.DefaultSelector()
        received, ended, clients = {}, 0, []
        for i in range(QUEUED):
            client = self.connect()
            client.sendall(chat(f"queued {i}"))
            received[i] = client.recv(65536) if in_turn else b""
            client.setblocking(False)
            selector.register(client, selectors.EVENT_READ, i)
            clients.append(client)
        deadline = time.monotonic() + 120
        while ended < QUEUED and time.monotonic() < deadline:
            for key, _ in selector.select(timeout=1):
                data = key.fileobj.recv(65536)
                received[key.data] += data
                if not data or b"data: [DONE]" in received[key.data]:
                    ended += 1
                    selector.unregister(key.fileobj)
        self.check(ended == QUEUED, f"{QUEUED - ended} streams of a round did not end")
        places = []
        for i, data in received.items():
            place = re.search(rb"#(\d+)/(\d+) ", data)
            whole = place and b"data: [DONE]" in data and data.count(b"word") == 5
            self.check(whole, f"stream {i} is not whole: {data[-200:]}")
            if whole:
                places.append((int(place[1]), int(place[2])))
        if in_turn:
            self.check(places == sorted(places), f"streams were taken out of turn: {places}")
        by_place = [begun for _, begun in sorted(places)]
        self.check(by_place == sorted(by_place), f"streams were begun out of turn: {places}")
        for client in clients:
            client.close()
        self.rounds += 1

    def run(self, seconds):
        standing = [self.connect() for _ in range(STANDING)]
        self.ask_all(standing, 0)
        self.queue_round(False)  # memory that is taken once
        descriptors, memory = self.descriptors(), self.memory_kib()
        end = time.monotonic() + seconds
        results = multiprocessing.Queue()
        prober = multiprocessing.Process(target=ask_health, args=(self.port, end, results))
        prober.start()
        threads = [threading.Thread(target=self.come_and_go, args=(end, seed)) for seed in range(4)]
        threads.append(threading.Thread(target=self.keep_asking, args=(standing, end)))
        for thread in threads:
            thread.start()
        while time.monotonic() < end:
            self.queue_round(self.rounds % 2 == 1)
        for thread in threads:
            thread.join()
        answer_ms, late_ms, waiting, fault = results.get(timeout=60)
        prober.join()
        self.check(not fault, fault)
        self.check(waiting >= QUEUED * 8 // 10, f"at most {waiting} requests waited at once")
        left_open = self.descriptors() - descriptors
        growth = self.memory_kib() - memory
        self.check(growth < 16 * 1024, f"memory grew by {growth} KiB")
        self.check(left_open == 0, f"{left_open} descriptors more than before the load")
        for client in standing:
            client.close()
        p99, late = (statistics.quantiles(times, n=100)[98] for times in (answer_ms, late_ms))
        # On a busy machine a process is late by itself, once on either side of the question.
        self.check(p99 < P99_MS + 2 * late, f"the 99th percentile of /health is {p99:.1f} ms, of a sleep's delay {late:.1f} ms")
        print(f"{STANDING} standing connections, {self.rounds} rounds of {QUEUED} streams (up to {waiting} waiting), "
              f"{self.left} clients that left, {len(answer_ms)} times /health: median {statistics.median(answer_ms):.2f} ms, "
              f"p99 {p99:.2f} ms (of a sleep's delay {late:.2f} ms); memory {growth:+d} KiB")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=12)
    seconds = parser.parse_args().seconds
    with tempfile.NamedTemporaryFile("w", suffix=".json") as script:
        json.dump([{"all": ["queued"], "text": "word " * 5, "cut": 5, "delay_ms": 15, "numbered": True},
                   {"all": ["leaver"], "text": "tick ", "repeat": 10, "delay_ms": 2}], script)
        script.flush()
        process = subprocess.Popen([FAKE_SERVER, script.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, text=True)
        try:
            port = int(process.stdout.readline().rsplit(":", 1)[1])
            threading.Thread(target=process.stdout.read, daemon=True).start()
            load = Load(port, process.pid)
            load.run(seconds)
            if process.poll() is not None:
                load.failures.append(f"the server ended with {process.returncode}")
        finally:
            process.stdin.close()
            process.wait(timeout=30)
        for failure in load.failures[:20]:
            print("FAILED:", failure)
        return 1 if load.failures else 0


if __name__ == "__main__":
    sys.exit(main())
