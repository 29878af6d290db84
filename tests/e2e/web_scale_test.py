"""The page with 1,000 pools, 100,000 leases and 200 sensors: its requests, its drawing, its processor time."""
import json
import unittest

from browser import CHROMIUM, Browser
from harness import Case, until
from resp import Resp

POOLS = 1000
LEASES = 100  # of each
SENSORS = 200
WINDOW = 4000  # milliseconds of idling that are measured
WINDOWS = 6  # at most
# Seconds of scripts in a second, as the profiler of V8 sees them. A loaded machine stretches the time of a script, so the
# best of some windows counts.
BUSY_MOST = 0.05


def pipelined(server, requests, count):
    """Sends all requests and reads all replies: seconds instead of minutes."""
    ask = Resp(server)
    for chunk in requests:
        ask.socket.sendall(chunk)
        for _ in range(count):
            reply = ask.read()
            assert reply and "ERR" not in str(reply), reply
    ask.close()


def command(*words):
    data = [str(word).encode() for word in words]
    return b"*%d\r\n" % len(data) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in data)


class Scale(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        assert CHROMIUM, "Chromium is not installed: tools/deps.sh test"
        pipelined(cls.server, [b"".join(command("POOL", "CREATE", "pool-%04d" % i, "RANGE", 1, 1000)
                                        for i in range(POOLS))], POOLS)
        pipelined(cls.server, (b"".join(command("ALLOC", "pool-%04d" % i, "holder/%d" % n) for n in range(LEASES))
                               for i in range(POOLS)), LEASES)
        with cls.server.local() as client:
            for i in range(SENSORS):
                client.execute_command("SENSOR", "SET", "sensor-%03d" % i, "t%d" % i,
                                       json.dumps({"command": ["/bin/true"]}))
        cls.browser = Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        super().tearDownClass()

    def tearDown(self):
        complaints, self.browser.complaints = self.browser.complaints, []
        self.assertEqual(complaints, [])

    def show(self, view):
        self.browser.go("about:blank")
        self.browser.go("http://127.0.0.1:%d/%s" % (self.server.http_port, view))

    def refreshed(self):
        return int(self.browser.value("Number((document.body || {dataset: {}}).dataset.refreshed || 0)"))

    def share_of_scripts(self):
        """The part of a window with two refreshes or more in which scripts ran, garbage collection included."""
        before = self.refreshed()
        self.browser.call("Profiler.start")
        self.browser.value("window.since = performance.now()")
        until(lambda: self.browser.value("performance.now() - window.since >= %d" % WINDOW) and self.refreshed() >= before + 2,
              "the window")
        profile = self.browser.call("Profiler.stop")["profile"]
        idle = {node["id"] for node in profile["nodes"] if node["callFrame"]["functionName"] in ("(idle)", "(program)", "(root)")}
        busy = sum(took for node, took in zip(profile["samples"], profile["timeDeltas"]) if node not in idle)
        return busy / (profile["endTime"] - profile["startTime"])

    def requests(self, view, ready):
        """Paths of the requests of a view from its beginning, and the number of its refreshes."""
        self.show(view)
        until(lambda: ready in self.browser.text("main") and self.refreshed() >= 2, ready)
        return json.loads(self.browser.value("JSON.stringify([performance.getEntriesByType('resource').map(e =>"
                                             " new URL(e.name).pathname), Number(document.body.dataset.refreshed)])"))

    def test_an_idle_list_of_pools_asks_for_what_it_shows_and_is_hardly_busy(self):
        self.requests("", "100 of 1\u202f000")
        self.browser.value("performance.clearResourceTimings();"
                           "window.before = Number(document.body.dataset.refreshed); window.changes = 0;"
                           "new MutationObserver((all) => { window.changes += all.length; })"
                           ".observe(document.querySelector('main'), {subtree: true, childList: true})")
        self.browser.call("Profiler.enable")
        shares = []
        while not shares or (min(shares) >= BUSY_MOST and len(shares) < WINDOWS):
            shares.append(self.share_of_scripts())
        refreshes = self.refreshed() - self.browser.value("window.before")
        paths = json.loads(self.browser.value(
            "JSON.stringify(performance.getEntriesByType('resource').map(e => new URL(e.name).pathname))"))
        print("idle: scripts %s ms/s, %d requests and %d changes of nodes in %d refreshes" % (
            ", ".join("%.1f" % (1000 * share) for share in shares), len(paths), self.browser.value("window.changes"), refreshes))
        self.assertLess(min(shares), BUSY_MOST)
        self.assertEqual(self.browser.value("document.querySelectorAll('#pools tbody tr').length"), 100)
        self.assertLessEqual(paths.count("/v1/pools"), refreshes + 1)  # and histories, a few at a time
        self.assertLessEqual(len(paths), 8 * (refreshes + 1))
        # Rows that did not change are left alone: sparklines arrive, and the tiles count.
        self.assertLess(self.browser.value("window.changes"), 60 * (refreshes + 1))

    def test_the_fullest_and_any_name_of_all_pools_are_found(self):
        for _ in range(4):
            self.do("ALLOC", "pool-0777", "filler", "COUNT", 200)
        self.show("")
        until(lambda: self.browser.text("#pools tbody th a") == "pool-0777", "the fullest first")
        self.browser.value("document.getElementById('query').value = 'OOL-0999';"
                           "document.getElementById('query').dispatchEvent(new Event('input'))")
        until(lambda: "pool-0999" in self.browser.text("#found"), "a pool that is not loaded")
        self.browser.value("document.querySelector('#pools th[data-sort=given] button').click()")
        until(lambda: self.browser.text("#pool-count") == "100 of 1\u202f000", "all are loaded for this order")
        self.do("DISOWN", "filler")

    def test_a_pool_and_the_sensors_ask_a_few_times(self):
        paths, refreshes = self.requests("#/pool/pool-0500", "holder/0")
        asked = [path for path in paths if path.startswith("/v1/") and "events" not in path]
        self.assertLessEqual(len(asked), 5 * refreshes + 3, asked)
        paths, refreshes = self.requests("#/sensors", "sensor-199")
        self.assertEqual([path for path in paths if path.endswith("/status")], [])
        self.assertLessEqual(paths.count("/v1/sensors"), refreshes + 1)

    def test_the_life_of_a_holder_is_read_from_the_newest_event_backward(self):
        """It has 1,000 events in 200,000: enough lines are found without reading all of them."""
        self.show("#/holder/holder%2F99")
        until(lambda: "lease.active" in self.browser.text("#holder-life"), "its last events")
        until(lambda: self.browser.value("document.querySelectorAll('#holder-life li').length") >= 100, "enough")
        pages = self.browser.value("performance.getEntriesByType('resource').filter(e => e.name.includes('/v1/events?')"
                                   " && e.name.includes('holder=')).length")
        self.assertLess(pages, 40)
        self.assertIn("pool-0999", self.browser.text("#holder-life li"))


if __name__ == "__main__":
    unittest.main()
