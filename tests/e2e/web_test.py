"""The page: how its files are served, that nothing in it can turn text into markup, and, if Chromium
is installed, what a browser makes of it."""
import http.client
import json
import os
import re
import subprocess
import unittest

from browser import CHROMIUM, Browser
from harness import Case, PATIENCE, Server, text_of, until

SOURCE = os.environ.get("TENURE_SOURCE_DIR", ".")
KINDS = {"html": "text/html; charset=utf-8", "js": "text/javascript; charset=utf-8",
         "css": "text/css; charset=utf-8", "svg": "image/svg+xml"}
FILES = {"/" if name == "index.html" else "/" + name: (name, KINDS[name.rsplit(".", 1)[1]])
         for name in sorted(os.listdir(os.path.join(SOURCE, "web")))}
HOSTILE = "<img src=x onerror=window.hacked=1>"


def get(server, path, method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=PATIENCE)
    headers = {"Accept": "text/html", **{k.replace("_", "-"): v for k, v in headers.items()}}
    connection.request(method, path, headers=headers)
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response, body


class Files(Case):
    def test_each_file_is_served_as_it_is(self):
        for path, (name, kind) in FILES.items():
            response, body = get(self.server, path)
            self.assertEqual(response.status, 200, path)
            self.assertEqual(response.getheader("Content-Type"), kind)
            self.assertEqual(body.decode(), text_of(os.path.join(SOURCE, "web", name)))
            self.assertEqual(response.getheader("X-Content-Type-Options"), "nosniff")
            policy = response.getheader("Content-Security-Policy")
            self.assertTrue(policy.startswith("default-src 'none'; script-src 'self';"), policy)
            self.assertNotIn("unsafe", policy)

    def test_what_the_browser_has_is_not_sent_again(self):
        for path in FILES:
            tag = get(self.server, path)[0].getheader("ETag")
            response, body = get(self.server, path, If_None_Match=tag)
            self.assertEqual((response.status, body), (304, b""))
            self.assertEqual(response.getheader("ETag"), tag)
            response, body = get(self.server, path, If_None_Match='"other"')
            self.assertEqual(response.status, 200)
            self.assertGreater(len(body), 0)

    def test_looking_only(self):
        self.assertEqual(get(self.server, "/app.js", "HEAD")[1], b"")
        for path in FILES:
            response, _ = get(self.server, path, "POST")
            self.assertEqual(response.status, 405)
            self.assertEqual(response.getheader("Allow"), "GET, HEAD, OPTIONS")
        self.assertEqual(get(self.server, "/app.js.map")[0].status, 404)

    def test_who_is_no_browser_gets_a_list(self):
        response, body = get(self.server, "/", Accept="*/*")
        self.assertEqual(response.getheader("Content-Type"), "text/plain; charset=utf-8")
        self.assertIn(b"/metrics", body)


class Source(unittest.TestCase):
    """What the policy forbids or what could turn text into markup is not even written."""

    def test_nothing_makes_markup_or_code_of_text(self):
        script = "".join(text_of(os.path.join(SOURCE, "web", name)) for name, _ in FILES.values()
                         if name.endswith(".js"))
        self.assertIn("textContent", script)
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(",
                     "new Function", "setAttribute(\"style", "DOMParser", "srcdoc",
                     "createContextualFragment"):
            self.assertNotIn(word, script)

    def test_nothing_is_loaded_from_elsewhere(self):
        for name, _ in FILES.values():
            text = text_of(os.path.join(SOURCE, "web", name))
            links = set(re.findall(r"(?:https?:)?//[^\s\"')]+", text)) - {"http://www.w3.org/2000/svg"}
            self.assertEqual({link for link in links if "." in link and " " not in link}, set(), name)
        page = text_of(os.path.join(SOURCE, "web", "index.html"))
        self.assertNotRegex(page, r"<script(?![^>]*src=)|<style|\son[a-z]+=|\sstyle=")


    def test_all_kinds_of_events_are_listened_to(self):
        table = text_of(os.path.join(SOURCE, "src", "kernel", "event.h"))
        table = table[table.index("#define KERNEL_EVENT_TABLE"):table.index("enum kernel_event_kind")]
        script = text_of(os.path.join(SOURCE, "web", "events.js"))
        listed = script[script.index("const KINDS"):script.index("];")]
        kinds = re.findall(r'"([a-z]+\.[a-z_]+)"', table)
        self.assertGreater(len(kinds), 15)
        self.assertEqual(re.findall(r'"([a-z]+\.[a-z_]+)"', listed), kinds)


@unittest.skipUnless(CHROMIUM, "Chromium is not installed")
class Page(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.browser = Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        super().tearDownClass()

    def show(self, view):
        """A fresh load: what an earlier test left does not count."""
        self.browser.go("about:blank")
        self.browser.go("http://127.0.0.1:%d/%s" % (self.server.http_port, view))

    def see(self, selector, text):
        until(lambda: text in self.browser.text(selector),
              "%r in %s: %r" % (text, selector, self.browser.text(selector)))

    def test_a_newcomer_is_told_what_to_type_and_then_sees_it(self):
        server = Server()
        self.addCleanup(server.remove)
        self.browser.go("http://127.0.0.1:%d/" % server.http_port)
        self.see("#empty", "No pools yet")
        self.see("#h-state", "serving")
        command = self.browser.text("#try-http")
        out = subprocess.run(command, shell=True, stdout=subprocess.PIPE, check=True)
        self.assertEqual(json.loads(out.stdout)["result"], "OK")
        with server.client() as client:
            client.execute_command("ALLOC", "ports", "h", "COUNT", 4)
        self.see("#pools", "40 % of 10: 4 active")
        self.assertEqual(self.browser.text("#empty"), "")

    def test_a_hostile_holder_and_metadata_stay_text(self):
        self.do("POOL", "CREATE", "danger", "RANGE", 1, 10)
        self.do("ALLOC", "danger", HOSTILE, "META", json.dumps({HOSTILE: HOSTILE}))
        lease = self.do("LEASE", "danger/1")
        lease = dict(zip(lease[::2], lease[1::2]))["lease"]
        self.show("#/lease/" + lease)
        self.see("#lease-facts", HOSTILE)
        self.show("#/pool/danger")
        self.see("#view-pool .leases", HOSTILE)
        self.show("#/find/danger%2F1")
        self.see("#view-find .leases", HOSTILE)
        self.assertEqual(self.browser.value("document.querySelectorAll('main img').length"), 0)
        self.assertIsNone(self.browser.value("window.hacked"))

    def test_a_lease_is_found_by_id_value_and_holder(self):
        self.do("POOL", "CREATE", "search", "RANGE", 1, 10)
        self.do("ALLOC", "search", "job/42", "COUNT", 2)
        lease = self.do("LEASE", "search/1")
        lease = dict(zip(lease[::2], lease[1::2]))["lease"]
        for query, where in ((lease, "#lease-facts"), ("search/2", "#view-find .leases"),
                             ("job/42", "#view-find .leases")):
            self.show("")
            self.see("#pools", "search")
            self.browser.value("document.getElementById('query').value = %s;"
                               "document.getElementById('search').requestSubmit()" % json.dumps(query))
            self.see(where, "job/42")
        self.show("#/find/nobody")
        self.see("#find-note", "No live lease")
        self.show("#/lease/0-99999999")
        self.see("#lease-note", "no such lease")

    def test_sensors_and_how_they_fare(self):
        self.show("#/sensors")
        self.see("#sensors-note", "There are none")
        self.do("SENSOR", "SET", "watcher", "t", json.dumps({"command": ["/bin/sleep", "1000"],
                                                             "settle_seconds": 0}))
        self.see("#sensors", "stopped")
        self.do("RULE", "SET", "r", "t")
        self.see("#sensors", "running")
        self.do("RULE", "DELETE", "r")
        self.do("SENSOR", "SET", "broken", "u", json.dumps({
            "command": ["/no/such/program"], "settle_seconds": 0, "max_restarts": 0}))
        self.do("RULE", "SET", "r", "u")
        self.see("#sensors", "error")
        self.do("SENSOR", "DELETE", "broken")
        self.do("SENSOR", "DELETE", "watcher")
        self.see("#sensors-note", "There are none")

    def test_pools_come_in_pages_and_are_found_by_name(self):
        server = Server()
        self.addCleanup(server.remove)
        with server.client() as client:
            pipe = client.pipeline(transaction=False)
            for i in range(230):
                pipe.execute_command("POOL", "CREATE", "pool-%d" % i, "RANGE", 1, 9)
            pipe.execute()
        home = "http://127.0.0.1:%d/" % server.http_port
        self.browser.go(home)
        self.see("#pool-count", "there are more")
        self.assertEqual(self.browser.value("document.querySelectorAll('#pools tbody tr').length"),
                         100)
        for _ in range(2):
            self.browser.value("document.getElementById('pools-more').click()")
        self.see("#pools", "pool-229")
        self.browser.value("document.getElementById('pool-filter').value = 'OOL-22';"
                           "document.getElementById('pool-filter').dispatchEvent(new Event('input'))")
        self.see("#pool-count", "11 of 230")
        self.browser.go("about:blank")
        self.browser.go(home + "#/find/pool-200")
        self.see("#find-pool", "pool-200")

    def test_leases_come_in_pages(self):
        self.do("POOL", "CREATE", "paged", "RANGE", 1, 1000)
        pipe = self.r.pipeline(transaction=False)
        for i in range(120):
            pipe.execute_command("ALLOC", "paged", "holder-%d" % i)
        pipe.execute()
        self.show("#/pool/paged")
        self.see("#view-pool .leases", "holder-0")
        seen = []
        while True:
            page = re.findall(r"holder-\d+", self.browser.text("#view-pool .leases"))
            seen += page
            if self.browser.value("document.getElementById('leases-next').disabled"):
                break
            self.browser.value("document.getElementById('leases-next').click()")
            until(lambda: page[0] not in self.browser.text("#view-pool .leases").split(), "a page")
        self.assertEqual(sorted(seen), sorted("holder-%d" % i for i in range(120)))

    def test_events_arrive(self):
        self.do("POOL", "CREATE", "eventful", "RANGE", 1, 10)
        self.show("")
        self.see("#event-note", "live")
        self.do("ALLOC", "eventful", HOSTILE)
        self.see("#events", "lease.active")
        self.see("#events", HOSTILE)
        self.assertEqual(self.browser.value("document.querySelectorAll('main img').length"), 0)

    def test_a_page_that_was_left_keeps_no_connection(self):
        # A browser has six connections to a server; a stream that stays open takes one for good.
        for _ in range(10):
            self.show("")
            self.see("#event-note", "live")

    def test_events_can_be_paused(self):
        self.do("POOL", "CREATE", "paused", "RANGE", 1, 10)
        self.show("")
        self.see("#event-note", "live")
        self.browser.value("document.getElementById('event-pause').click()")
        self.do("ALLOC", "paused", "while-paused")
        self.see("#event-note", "paused")
        self.assertNotIn("while-paused", self.browser.text("#events"))
        self.browser.value("document.getElementById('event-pause').click()")
        self.see("#events", "while-paused")

    def test_an_engine_that_has_halted_is_not_overlooked(self):
        self.show("")
        self.see("#h-state", "serving")
        self.assertEqual(self.browser.text("#halted"), "")
        # A server whose engine halts ends soon after: the page is told so in its place.
        self.browser.value("""(() => { const real = fetch; window.fetch = async (path, options) => {
            const reply = await real(path, options);
            return String(path).startsWith("/metrics") ? new Response((await reply.text()).replace(
              "tenure_engine_halted 0", "tenure_engine_halted 1")) : reply; }; })()""")
        self.see("#halted", "The engine has halted")
        self.see("#h-state", "halted")

    def test_it_fits_a_phone(self):
        self.do("POOL", "CREATE", "a-pool.with-a-rather-long-name_of-64-characters", "RANGE", 1,
                1000000)
        self.browser.call("Emulation.setDeviceMetricsOverride", width=360, height=740,
                          deviceScaleFactor=1, mobile=True)
        self.show("")
        self.see("#pools", "a-pool.with")
        self.assertLessEqual(self.browser.value("document.documentElement.scrollWidth"), 360)
        self.browser.call("Emulation.clearDeviceMetricsOverride")

    def test_a_server_that_goes_away_and_comes_back(self):
        server = Server(keep=True)
        try:
            self.browser.go("http://127.0.0.1:%d/" % server.http_port)
            self.see("#h-state", "serving")
            server.stop()
            self.see("#offline", "Disconnected, retrying")
            server.start()
            self.see("#h-state", "serving")
            self.assertEqual(self.browser.text("#offline"), "")
        finally:
            server.remove()


if __name__ == "__main__":
    unittest.main()
