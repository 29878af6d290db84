# tsan
"""The server's figures: INFO, for tools made for Redis, and the metrics for Prometheus."""
import contextlib
import http.client
import os
import re
import shutil
import socket
import subprocess
import threading
import unittest

from harness import Case, PATIENCE, Server, until
from resp import Resp

SAMPLE = re.compile(r'^([a-z_]+)(?:\{(.*)\})? ([0-9.]+|\+Inf)$')
LABEL = re.compile(r'([a-z]+)="((?:[^"\\]|\\.)*)"(?:,|$)')


def get(server, path, method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=PATIENCE)
    connection.request(method, path, headers={k.replace("_", "-"): v for k, v in headers.items()})
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response, body


def scrape(server, path="/metrics"):
    response, body = get(server, path)
    assert response.status == 200, body
    return body.decode()


def samples(text):
    """(name, labels as sorted pairs) -> number; fails at an invalid and at a repeated line."""
    found = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        match = SAMPLE.match(line)
        assert match, line
        labels = tuple(sorted(LABEL.findall(match.group(2) or "")))
        key = (match.group(1), labels)
        assert key not in found, line
        found[key] = float(match.group(3))
    return found


def pool_of(found, name, pool, **labels):
    return found.get((name, tuple(sorted([("pool", pool), *labels.items()]))))


class Info(Case):
    def test_commands_and_refusals_are_counted_as_redis_does(self):
        before = self.r.info("stats")
        self.do("POOL", "CREATE", "few", "RANGE", 1, 2)
        self.do("ALLOC", "few", "a", "COUNT", 2)
        self.refused("EXHAUSTED", "ALLOC", "few", "b")
        self.refused("NOTFOUND", "LEASE", "0-999999")
        self.refused("unknown command", "NONSENSE")
        stats = self.r.info("all")
        alloc = stats["cmdstat_alloc"]
        self.assertEqual((alloc["calls"], alloc["failed_calls"]), (2, 1))
        self.assertGreater(alloc["usec"], 0)
        self.assertEqual(stats["cmdstat_pool|create"]["calls"], 1)
        self.assertEqual(stats["cmdstat_lease"]["failed_calls"], 1)
        self.assertEqual(stats["errorstat_EXHAUSTED"], "count=1")
        self.assertEqual(stats["total_error_replies"] - before["total_error_replies"], 3)
        self.assertGreater(stats["total_net_output_bytes"], before["total_net_output_bytes"])
        self.assertNotIn("cmdstat_alloc", self.r.info())

    def test_a_reply_that_is_made_in_one_step_is_about_at_most_64_names(self):
        with contextlib.closing(Resp(self.server)) as client:
            for words in (["COMMAND", "DOCS"], ["COMMAND", "INFO"], ["CONFIG", "GET"]):
                self.assertIsInstance(client.do(*words, *["ping"] * 64), list)
                for count in (65, 16000):
                    self.assertIn("at most 64 names", client.do(*words, *["ping"] * count))
            self.assertIn("at most 64 names", client.do("INFO", *["ping"] * 16000))

    def test_settings_are_found_by_pattern(self):
        def found(*patterns):
            got = self.do("CONFIG", "GET", *patterns)
            return set(got if isinstance(got, dict) else got[::2])
        self.assertEqual(found("SAVE", "data?ases"), {"save", "databases"})
        self.assertEqual(found("MAX*", "[s-t]*t"), {"maxclients", "maxmemory", "timeout"})
        self.assertEqual(found("*-read-only"), {"replica-read-only", "slave-read-only"})
        self.assertEqual(found("x" * 65), set())
        self.assertEqual(len(found("*")), 10)


class Metrics(Case):
    def test_counters_are_right_after_known_operations(self):
        self.do("POOL", "CREATE", "known", "RANGE", 1, 10, "LEASE", 3600)
        lease = self.do("ALLOC", "known", "a", "COUNT", 4)
        lease = dict(zip(lease[::2], lease[1::2]))
        gone = self.do("ALLOC", "known", "b")
        gone = dict(zip(gone[::2], gone[1::2]))
        self.do("RELEASE", gone["lease"], "b", gone["epoch"])
        for _ in range(3):
            self.refused("EXHAUSTED", "ALLOC", "known", "c", "COUNT", 7)
        self.refused("BUSY", "ALLOC", "known", "c", "VALUES", 1, 1)
        self.refused("STALE", "TOUCH", lease["lease"], 99)
        self.refused("POOL_NOTFOUND", "ALLOC", "unknown", "c")
        found = samples(scrape(self.server))
        expected = {
            "tenure_pool_size": 10, "tenure_pool_free": 6, "tenure_pool_occupancy_ratio": 0.4,
            "tenure_pool_allocations_total": 5, "tenure_pool_releases_total": 1,
            "tenure_pool_expiries_total": 0, "tenure_pool_revocations_total": 0,
            "tenure_pool_new_leases_per_second": None, "tenure_pool_scopes": None,
            "tenure_pool_waiting": 0, "tenure_pool_waiting_since_time_seconds": None,
        }
        for name, value in expected.items():
            self.assertEqual(pool_of(found, name, "known"), value, name)
        self.assertEqual(pool_of(found, "tenure_pool_values", "known", state="active"), 4)
        self.assertEqual(pool_of(found, "tenure_pool_values", "known", state="cooling"), 0)
        self.assertIsNotNone(pool_of(found, "tenure_pool_next_free_time_seconds", "known"))
        refusals = {dict(labels)["result"]: value for (name, labels), value in found.items()
                    if name == "tenure_pool_refusals_total" and dict(labels)["pool"] == "known"}
        self.assertEqual(refusals, {"EXHAUSTED": 3, "BUSY": 1})
        self.assertEqual(found[("tenure_server_refusals_total",
                                (("command", "touch"), ("result", "STALE")))], 1)
        self.assertEqual(found[("tenure_server_refusals_total",
                                (("command", "alloc"), ("result", "POOL_NOTFOUND")))], 1)
        self.assertEqual(found[("tenure_engine_halted", ())], 0)
        self.assertEqual(found[("tenure_server_connections", (("protocol", "resp"),))], 1)
        lsn = dict(zip(*[iter(self.do("POOL", "INFO", "known"))] * 2))["lsn"]
        self.assertEqual(found[("tenure_engine_lsn", ())], lsn)
        self.assertGreater(found[("process_resident_memory_bytes", ())], 1000000)
        self.assertGreater(found[("process_open_fds", ())], 5)
        self.assertGreater(found[("process_start_time_seconds", ())], 1600000000)

    def test_refusals_of_a_pool_that_was_dropped_are_forgotten(self):
        self.do("POOL", "CREATE", "brief", "RANGE", 1, 1)
        self.refused("EXISTS", "POOL", "CREATE", "brief", "RANGE", 1, 2)
        self.assertIn('tenure_pool_refusals_total{pool="brief",result="EXISTS"} 1\n',
                      scrape(self.server))
        self.do("POOL", "DROP", "brief")
        self.assertNotIn('"brief"', scrape(self.server))
        self.do("POOL", "CREATE", "brief", "RANGE", 1, 1)
        self.assertNotIn('refusals_total{pool="brief"', scrape(self.server))

    def test_sticky_pools_show_the_adaptive_lease(self):
        self.do("POOL", "CREATE", "devices", "RANGE", 1, 9, "LEASE", 120, "STICKY", "yes")
        self.do("ALLOC", "devices", "a")
        found = samples(scrape(self.server))
        self.assertEqual(pool_of(found, "tenure_pool_effective_lease_seconds", "devices"), 120)
        self.assertEqual(pool_of(found, "tenure_pool_ultra_rate_active", "devices"), 0)
        self.assertEqual(pool_of(found, "tenure_pool_force_zero_active", "devices"), 0)
        self.assertGreater(pool_of(found, "tenure_pool_new_leases_per_second", "devices"), 0)

    def test_histograms_are_consistent(self):
        for _ in range(20):
            self.do("PING")
        pipe = self.r.pipeline(transaction=False)
        for _ in range(500):
            pipe.execute_command("TICK")
        pipe.execute()
        found = samples(scrape(self.server))
        name = "tenure_server_command_duration_seconds"
        for command in ("ping", "tick"):
            buckets = [(float(dict(labels)["le"]), value) for (n, labels), value in found.items()
                       if n == name + "_bucket" and dict(labels)["command"] == command]
            self.assertEqual(buckets, sorted(buckets))
            self.assertEqual([v for _, v in buckets], sorted(v for _, v in buckets))
            count = found[(name + "_count", (("command", command),))]
            self.assertEqual(buckets[-1], (float("inf"), count))
            self.assertEqual(count, found[("tenure_server_commands_total",
                                           (("command", command),))])
            self.assertGreater(found[(name + "_sum", (("command", command),))], 0)
        name = "tenure_engine_append_duration_seconds"
        self.assertGreater(found[(name + "_count", ())], 0)
        self.assertEqual(found[(name + "_bucket", (("le", "+Inf"),))], found[(name + "_count", ())])

    def test_batches_the_age_of_the_snapshot_and_the_free_disk(self):
        server = Server()
        self.addCleanup(server.remove)
        value = lambda found, name, *labels: found[(name, labels)]
        found = samples(scrape(server))
        self.assertEqual(value(found, "tenure_snapshot_time_seconds"), 0)
        with server.client() as client:
            for i in range(20):
                client.execute_command("POOL", "CREATE", "p%d" % i, "RANGE", 1, 9)
            client.execute_command("SNAPSHOT")
        found = samples(scrape(server))
        name = "tenure_engine_batch_commands"
        self.assertEqual(value(found, name + "_count"), value(found, "tenure_engine_batches_total"))
        self.assertEqual(value(found, name + "_sum"), value(found, "tenure_engine_commands_total"))
        self.assertGreaterEqual(value(found, name + "_bucket", ("le", "1")), 20)  # each was alone
        self.assertEqual(value(found, name + "_bucket", ("le", "8192")), value(found, name + "_count"))
        taken = value(found, "tenure_snapshot_time_seconds")
        self.assertLessEqual(taken, value(found, "tenure_engine_time_seconds"))
        self.assertGreater(taken, value(found, "process_start_time_seconds") - 1)
        space = os.statvfs(server.data)
        self.assertLessEqual(value(found, "tenure_disk_free_bytes"), space.f_blocks * space.f_frsize)
        self.assertGreater(value(found, "tenure_disk_free_bytes"), 0)
        server.process.kill()  # so that the snapshot of the end is not taken
        server.process.wait(PATIENCE)
        server.start()
        self.assertEqual(value(samples(scrape(server)), "tenure_snapshot_time_seconds"), taken)

    def test_subscriptions_are_counted(self):
        name = ("tenure_server_subscriptions", ())
        with self.r.pubsub() as listener:
            listener.subscribe("events", "pool:a")
            listener.psubscribe("holder:*")
            for _ in range(3):
                self.assertIsNotNone(listener.get_message(timeout=PATIENCE))
            self.assertEqual(samples(scrape(self.server))[name], 3)
        until(lambda: samples(scrape(self.server))[name] == 0, "nobody listens")
        name = ("tenure_server_event_streams", ())
        connection = http.client.HTTPConnection("127.0.0.1", self.server.http_port)
        connection.request("GET", "/v1/events")
        stream = connection.getresponse()
        self.assertEqual(samples(scrape(self.server))[name], 1)
        stream.close()
        connection.close()
        until(lambda: samples(scrape(self.server))[name] == 0, "nobody reads")

    def test_pools_can_be_left_out(self):
        self.do("POOL", "CREATE", "left", "RANGE", 1, 1)
        whole = scrape(self.server)
        short = scrape(self.server, "/metrics?pools=no")
        self.assertIn('tenure_pool_size{pool="left"}', whole)
        self.assertNotIn("tenure_pool_", short)
        self.assertIn("tenure_engine_lsn ", short)

    def test_http_shapes(self):
        response, body = get(self.server, "/metrics", "HEAD")
        self.assertEqual((response.status, body), (200, b""))
        self.assertEqual(response.getheader("Content-Type"),
                         "text/plain; version=0.0.4; charset=utf-8")
        self.assertGreater(int(response.getheader("Content-Length")), 1000)
        response, _ = get(self.server, "/metrics", "POST")
        self.assertEqual(response.status, 405)
        self.assertIn('tenure_server_http_responses_total{status="405"}', scrape(self.server))

    @unittest.skipUnless(shutil.which("promtool"), "promtool is not installed")
    def test_promtool_finds_nothing(self):
        self.do("POOL", "CREATE", "prom", "RANGE", 1, 1, "STICKY", "yes", "LEASE", 60)
        self.do("ALLOC", "prom", "h")
        text = scrape(self.server)
        out = subprocess.run(["promtool", "check", "metrics"], input=text.encode(),
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        self.assertEqual((out.returncode, out.stdout), (0, b""))


class Many(Case):
    POOLS = 10000

    def test_ten_thousand_pools_and_many_scrapers(self):
        pipe = self.r.pipeline(transaction=False)
        for i in range(self.POOLS):
            pipe.execute_command("POOL", "CREATE", "pool-%d" % i, "RANGE", 1, i + 1)
        pipe.execute()
        texts = []
        threads = [threading.Thread(target=lambda: texts.append(scrape(self.server)))
                   for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        self.assertEqual(len(texts), 8)
        for text in texts:
            self.assertEqual(text.count('tenure_pool_size{pool="pool-'), self.POOLS)
        found = samples(texts[0])
        self.assertEqual(found[("tenure_metrics_pools_omitted", ())], 0)
        sizes = sum(v for (n, labels), v in found.items()
                    if n == "tenure_pool_size" and labels[0][1].startswith("pool-"))
        self.assertEqual(sizes, self.POOLS * (self.POOLS + 1) / 2)

    def test_a_scraper_that_leaves_or_a_stop_is_no_trouble(self):
        self.do("POOL", "CREATE", "leaver", "RANGE", 1, 1)
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", self.server.http_port)) as s:
                s.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        until(lambda: "tenure_engine_lsn" in scrape(self.server), "a scrape")


if __name__ == "__main__":
    unittest.main()
