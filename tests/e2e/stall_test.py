#!/usr/bin/env python3
"""A disk that does not answer: the server reports it, and answers all requests that need no disk."""
import os
import subprocess
import tempfile
import unittest
import urllib.error
import urllib.request

from harness import PATIENCE, Server, until

# fdatasync waits while the file $STALL exists; of files of events, while $STALL.events does.
SOURCE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int fdatasync(int fd) {
    static int (*real)(int);
    char link[64], path[4096] = "", stall[4096];
    if (real == NULL)
        real = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    int events = readlink(link, path, sizeof path - 1) > 0 && strstr(path, "/events-") != NULL;
    snprintf(stall, sizeof stall, "%s%s", getenv("STALL"), events ? ".events" : "");
    while (access(stall, F_OK) == 0)
        usleep(10000);
    return real(fd);
}
"""


class Stall(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory(prefix="tenure-stall-")
        self.addCleanup(self.dir.cleanup)
        self.stall = os.path.join(self.dir.name, "stall")
        library = os.path.join(self.dir.name, "stall.so")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, "-xc", "-", "-ldl"], check=True,
                       input=SOURCE.encode(), timeout=PATIENCE)
        before = dict(os.environ)
        os.environ.update(STALL=self.stall, LD_PRELOAD=library,
                          ASAN_OPTIONS="verify_asan_link_order=0:" + before.get("ASAN_OPTIONS", ""))
        try:
            self.server = Server()
        finally:
            os.environ.clear()
            os.environ.update(before)
        self.addCleanup(self.server.remove)
        self.addCleanup(self.go_on)

    def go_on(self):
        for path in (self.stall, self.stall + ".events"):
            if os.path.exists(path):
                os.unlink(path)

    def get(self, path):
        url = "http://127.0.0.1:%d%s" % (self.server.http_port, path)
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def test_it_is_told_and_metrics_are_answered(self):
        client = self.server.client()
        client.execute_command("POOL", "CREATE", "p", "RANGE", 1, 9)
        client.execute_command("ALLOC", "p", "short", "TTL", 2)  # it ends while the disk stalls
        self.assertEqual(self.get("/readyz")[0], 200)
        with open(self.stall, "wb"):
            pass
        with self.server.connect() as waiting:
            waiting.sendall(b"*3\r\n$5\r\nALLOC\r\n$1\r\np\r\n$1\r\nh\r\n")
            until(lambda: self.get("/readyz")[0] == 503, "the server to say that it is not ready")
            status, text = self.get("/readyz?verbose")
            self.assertEqual(status, 503)
            self.assertIn("[-]disk failed: no answer for ", text)
            self.assertEqual(self.get("/livez"), (200, "ok\n"))
            status, text = self.get("/metrics")
            self.assertEqual(status, 200)
            waits = [float(line.split()[1]) for line in text.splitlines()
                     if line.startswith("tenure_log_waiting_seconds ")]
            self.assertGreaterEqual(waits[0], 5)
            self.assertEqual(client.ping(), True)
            self.go_on()
            self.assertTrue(waiting.recv(4096).startswith(b"*"))
        until(lambda: self.get("/readyz")[0] == 200, "the server to be ready again")
        client.close()

    def test_files_of_events_that_are_not_written_are_told(self):
        client = self.server.client()
        client.execute_command("POOL", "CREATE", "p", "RANGE", 1, 9)
        with open(self.stall + ".events", "wb"):
            pass
        with self.server.connect() as snapshot:  # before it is valid, events are synced
            snapshot.sendall(b"*1\r\n$8\r\nSNAPSHOT\r\n")
            until(lambda: self.get("/readyz")[0] == 503, "the server to say that it is not ready")
            self.assertEqual(client.execute_command("ALLOC", "p", "h")[1], "OK")  # nothing waits for it
        text = self.get("/readyz?verbose")[1]
        self.assertIn("[+]disk ok", text)
        self.assertIn("[-]events failed: no answer for ", text)
        self.go_on()
        until(lambda: self.get("/readyz")[0] == 200, "the server to be ready again")
        client.close()


if __name__ == "__main__":
    unittest.main()
