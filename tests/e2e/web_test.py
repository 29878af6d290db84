"""The page: how its files are served, that none of them can turn text into markup, and how a browser
shows it."""
import http.client
import json
import os
import re
import subprocess
import tempfile
import threading
import unittest

import redis

from browser import PageCase
from harness import BUILD, Case, PATIENCE, Server, text_of, until

SOURCE = os.environ.get("TENURE_SOURCE_DIR", ".")
KINDS = {"html": "text/html; charset=utf-8", "js": "text/javascript; charset=utf-8",
         "css": "text/css; charset=utf-8", "svg": "image/svg+xml"}
FILES = {"/" if name == "index.html" else "/" + name: (name, KINDS[name.rsplit(".", 1)[1]])
         for name in sorted(os.listdir(os.path.join(SOURCE, "web")))}
HOSTILE = "<img src=x onerror=window.hacked=1>"
COMMENT = re.compile(r"^[ \t]*//.*\n", re.MULTILINE)


def served(name):
    """A file of the page as the server has it: a line of a script that is only a comment is left out."""
    text = text_of(os.path.join(SOURCE, "web", name))
    return COMMENT.sub("", text) if name.endswith(".js") else text


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
            self.assertEqual(body.decode(), served(name))
            self.assertEqual(response.getheader("X-Content-Type-Options"), "nosniff")
            policy = response.getheader("Content-Security-Policy")
            self.assertTrue(policy.startswith("default-src 'none'; script-src 'self';"), policy)
            self.assertNotIn("unsafe", policy)

    def test_it_stays_small(self):
        self.assertLess(sum(len(get(self.server, path)[1]) for path in FILES), 150 * 1024)

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
    """The source has nothing that the policy forbids or that could turn text into markup."""

    def test_nothing_makes_markup_or_code_of_text(self):
        script = "".join(text_of(os.path.join(SOURCE, "web", name)) for name, _ in FILES.values()
                         if name.endswith(".js"))
        self.assertIn("textContent", script)
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(",
                     "new Function", "setAttribute(\"style", "DOMParser", "srcdoc",
                     "createContextualFragment"):
            self.assertNotIn(word, script)

    def test_a_line_that_begins_with_two_slashes_is_a_comment(self):
        """Such lines are not served. A template literal or a comment of several lines could contain one."""
        for name, _ in FILES.values():
            for line in text_of(os.path.join(SOURCE, "web", name)).splitlines() if name.endswith(".js") else ():
                if not COMMENT.match(line + "\n"):
                    self.assertEqual(line.count("`") % 2, 0, name + ": " + line)
                    self.assertNotIn("/*", line.replace("/*/", ""), name)

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


class Page(PageCase):
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
        self.click("#find-note a")  # one that has left
        self.see("#t-holder", "nobody")
        self.show("#/lease/0-99999999")
        self.see("#lease-note", "no such lease")

    def test_sensors_and_how_they_fare(self):
        self.show("#/sensors")
        self.see("#sensors-empty", "No sensors yet")
        self.do("SENSOR", "SET", "watcher", "t", json.dumps({"command": ["/bin/sleep", "1000"],
                                                             "settle_seconds": 0}))
        self.refresh()
        self.see("#sensors", "stopped")
        self.do("RULE", "SET", "r", "t")
        self.see("#sensors", "running")
        self.do("RULE", "DELETE", "r")
        self.do("SENSOR", "SET", "broken", "u", json.dumps({
            "command": ["/no/such/program"], "settle_seconds": 0, "max_restarts": 0}))
        self.do("RULE", "SET", "r", "u")
        self.see("#sensors", "is not tried again until you reset it: cannot start it")
        self.see("#sensors tbody tr", "broken")  # those in trouble come first
        self.see("#sensors-note", "2, 1 in trouble")
        self.do("SENSOR", "DELETE", "broken")
        self.do("SENSOR", "DELETE", "watcher")
        self.refresh()
        self.see("#sensors-empty", "No sensors yet")

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
        self.see("#pool-count", "100 of 230")
        self.assertEqual(self.browser.value("document.querySelectorAll('#pools tbody tr').length"),
                         100)
        with server.client() as client:
            client.execute_command("ALLOC", "pool-229", "h")
        until(lambda: self.browser.text("#pools tbody th a") == "pool-229", "the fullest of all first")
        for _ in range(2):
            self.browser.value("document.getElementById('pools-more').click()")
        self.see("#pools", "pool-99\n")
        self.browser.value("document.getElementById('pool-filter').value = 'OOL-22';"
                           "document.getElementById('pool-filter').dispatchEvent(new Event('input'))")
        until(lambda: self.browser.text("#pool-count") == "11", "those that contain it")
        self.fill("#pool-filter", "nothing")
        self.see("#pools-none", "No pool has a name that contains this.")
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

    def test_events_are_filtered_and_a_time_is_found(self):
        self.do("POOL", "CREATE", "filtered", "RANGE", 1, 10)
        self.do("ALLOC", "filtered", "quiet/1")
        self.do("ALLOC", "filtered", "loud/1")
        self.show("#/events")
        self.see("#events", "quiet/1")
        self.fill("#event-text", "LOUD")
        until(lambda: "quiet/1" not in self.browser.text("#events"), "the others are gone")
        self.see("#events", "loud/1")
        self.do("ALLOC", "filtered", "quiet/2")
        self.do("ALLOC", "filtered", "loud/2")
        self.see("#events", "loud/2")
        self.assertNotIn("quiet/2", self.browser.text("#events"))
        self.fill("#event-text", "nothing has this")
        until(lambda: "matches" in self.browser.value("getComputedStyle(document.getElementById('events'), '::after').content"),
              "not that nothing has happened")
        self.fill("#event-text", "")
        self.fill("#event-kind", "pool.created")
        self.see("#events", "filtered")
        until(lambda: "lease.active" not in self.browser.text("#events"), "pools only")
        self.fill("#event-kind", "")
        self.see("#events", "lease.active")
        self.fill("#event-time", "2020-01-01T00:00:00")
        self.see("#event-note", "paused")
        self.see("#events", "pool.created")

    def test_pools_are_sorted_and_say_what_is_wrong(self):
        server = Server()
        self.addCleanup(server.remove)
        with server.client() as client:
            for name, used in (("a-empty", 0), ("b-full", 4), ("c-half", 2)):
                client.execute_command("POOL", "CREATE", name, "RANGE", 1, 4)
                if used:
                    client.execute_command("ALLOC", name, "h", "COUNT", used)
            client.execute_command("POOL", "CREATE", "nets", "RANGE", 1, 9, "SCOPED", "yes")
            client.execute_command("ALLOC", "nets@blue", "h")

        def names():
            return self.browser.value("[...document.querySelectorAll('#pools tbody tr')].filter(r => !r.hidden)"
                                      ".map(r => r.querySelector('th a').textContent).join(' ')")
        self.browser.go("http://127.0.0.1:%d/" % server.http_port)
        until(lambda: names() == "b-full c-half nets a-empty", "the fullest first")
        self.see("#pools", "Nothing is free.")
        self.assertEqual(self.browser.value("document.querySelector('#pools tbody tr').dataset.level"), "bad")
        self.click('#pools th[data-sort="name"] button')
        until(lambda: names() == "a-empty b-full c-half nets", "by name")
        self.click("#pools .fold:not([hidden])")
        until(lambda: names() == "a-empty b-full c-half nets nets@blue", "scopes are folded under their template")

    def test_a_pool_has_charts_a_map_and_a_line(self):
        self.do("POOL", "CREATE", "seen", "RANGE", 1, 3, "EXCLUDE", "2")
        self.do("ALLOC", "seen", "first", "COUNT", 2)
        with self.server.client() as waiting:
            def wait():
                try:
                    waiting.execute_command("ALLOC", "seen", "second", "WAIT", 600)
                except redis.RedisError:
                    pass  # the end of this test
            thread = threading.Thread(target=wait)
            thread.start()
            self.show("#/pool/seen")
            self.see("#line", "second")
            self.see("#pool-why", "Nothing is free, and one waits.")
            self.assertEqual(self.browser.value("[...document.querySelectorAll('#pool-map .cell')]"
                                                ".map(c => c.title).join('; ')"),
                             "1: active, first; 2: excluded; 3: active, first")
            until(lambda: "No history yet" in self.browser.text("#chart-used")
                  or self.browser.value("document.querySelectorAll('#chart-used polygon').length") == 5, "a chart")
            self.do("RELEASE", self.lease_of("seen/1"), "first", 1)
            thread.join(PATIENCE)
        self.see("#pool-bar", "1 active")

    def test_charts_are_drawn_from_the_history(self):
        self.do("POOL", "CREATE", "drawn", "RANGE", 1, 10)
        self.show("#/pool/drawn")
        self.see("#t-pool", "drawn")
        self.browser.value("""(() => { const real = fetch; window.fetch = async (path, options) => {
            if (!String(path).includes("/history")) { return real(path, options); }
            const zero = [0, 0, 0], times = [0, 60000, 120000].map(t => String(1794842640000 + t));
            return Response.json({pool: "drawn", step: "minute", kept: true, time: times, size: ["10", "10", "10"],
              reserved: zero, active: [1, 5, 9], offline: zero, revoking: zero, cooling: zero, waiting: zero,
              peak: [1, 5, 9], given: [1, 4, 4], ended: zero, refused: [0, 0, 7], lease: zero,
              rate_per_hour: zero, ultra: zero, force_zero: zero}); };
            const step = document.getElementById("history-step");
            step.value = "hour"; step.dispatchEvent(new Event("change")); })()""")
        until(lambda: self.browser.value("document.querySelectorAll('#chart-used polygon').length") == 5, "areas")
        self.see("#chart-used .chart-note", "active 9")
        self.see("#chart-flow .chart-note", "refused 7")
        self.assertGreater(self.browser.value("document.querySelector('#chart-flow polyline')"
                                              ".getBoundingClientRect().height"), 10)
        self.assertEqual(self.browser.value("document.querySelectorAll('#chart-used tbody tr').length"), 3)

    def test_a_value_a_lease_and_a_holder_have_a_life(self):
        self.do("POOL", "CREATE", "lived", "RANGE", 1, 1)
        self.do("ALLOC", "lived", "before")
        self.do("RELEASE", self.lease_of("lived/1"), "before", 1)
        self.show("#/value/lived/1")
        self.see("#value-note", "last held by before")
        self.do("ALLOC", "lived", "after", "TTL", 600)
        self.see("#value-note", "Held by after since ")
        self.see("#value-life", "lease.released")
        self.see("#value-life", "after")
        lease = self.lease_of("lived/1")
        self.show("#/lease/" + lease)
        self.see("#lease-life", "lease.active")
        self.assertNotIn("before", self.browser.text("#lease-life"))
        self.show("#/holder/before")
        self.see("#holder-note", "holds nothing now")
        self.see("#holder-life", "lease.released")

    def test_search_as_you_type(self):
        self.do("POOL", "CREATE", "sought", "RANGE", 1, 9)
        self.do("ALLOC", "sought", "finder/of/things")
        self.show("")
        self.see("#pools", "sought")
        for text, found in (("soug", "sought"), ("sought/1", "active, finder/of/things"),
                            ("sought/9", "value, free"), ("finder/", "finder/of/things")):
            self.fill("#query", text)
            self.see("#found", found)
        self.browser.value("document.querySelector('#found a').click()")
        self.see("#t-holder", "finder/of/things")

    def test_acting_says_what_happens_and_the_same_command(self):
        self.show("")
        self.press("Create a pool …")
        for name, text in (("pool", "made"), ("first", "1"), ("last", "5"), ("lease", "1h")):
            self.fill("#act-" + name, text)
        self.see("#act-what", "A pool made of the values 1 to 5")
        self.see("#act-command", "tenure pool create made range 1 5 lease 1h")
        curl = self.browser.text("#act-command").splitlines()[1]
        self.click("#act-go")
        self.see("#act-result", "Done, at log position")
        out = subprocess.run(curl, shell=True, stdout=subprocess.PIPE, check=True)
        self.assertEqual(json.loads(out.stdout)["result"], "NOOP")  # the same again
        self.click("#act-cancel")
        self.do("ALLOC", "made", "tenant")
        self.show("#/lease/" + self.lease_of("made/1"))
        self.press("Revoke …")
        self.fill("#act-reason", "it misbehaves")
        self.see("#act-what", "tenant loses its value at once")
        self.click("#act-go")
        self.see("#act-result", "Done, at log position")
        self.see("#lease-life", "it misbehaves")
        self.show("#/pool/made")
        self.press("Change …")
        self.fill("#act-lease", "60")
        self.see("#act-what", "lease becomes 60, it was 3600")
        self.click("#act-go")
        self.see("#act-result", "Done")
        self.click("#act-cancel")

        def again():
            """The button acts on the rows that are shown now."""
            self.press("Change …")
            shown = self.browser.value("document.getElementById('act-lease').value")
            self.click("#act-cancel")
            return shown == "60"
        until(again, "the new policy")
        self.press("Drop …")
        self.click("#act-go")
        self.see("#act-result", "Done")

    def test_a_repeat_after_a_lost_answer_acts_once(self):
        self.do("POOL", "CREATE", "once", "SET")
        self.show("#/pool/once")
        self.press("Add members …")
        self.fill("#act-members", "gpu-1")
        # The first request arrives, and its answer is lost.
        self.browser.value("""(() => { const real = fetch; window.keys = []; window.fetch = async (path, options) => {
            const reply = await real(path, options);
            if (options.method !== "POST") { return reply; }
            window.keys.push(options.headers["Idempotency-Key"]);
            if (window.keys.length === 1) { throw new TypeError("Failed to fetch"); }
            window.replayed = reply.headers.get("Idempotent-Replayed"); return reply; }; })()""")
        self.click("#act-go")
        self.see("#act-result", "repeating it is safe")
        self.click("#act-go")
        self.see("#act-result", "Done, at log position")
        first, second = self.browser.value("window.keys")
        self.assertEqual(first, second)
        self.assertEqual(self.browser.value("window.replayed"), "true")
        self.click("#act-cancel")
        self.press("Add members …")
        self.fill("#act-members", "gpu-2")
        self.click("#act-go")
        self.see("#act-result", "Done, at log position")
        self.assertEqual(len(set(self.browser.value("window.keys"))), 2)

    def test_a_node_that_follows_links_to_the_same_view_of_the_owner(self):
        self.do("POOL", "CREATE", "led", "RANGE", 1, 9)
        self.show("#/pool/led")
        self.see("#t-pool", "led")
        # A cluster is tested elsewhere: this is what a node of one answers.
        self.browser.value("""(() => { const real = fetch; window.fetch = async (path, options) => {
            if (options.method === "DELETE") { return {type: "opaqueredirect"}; }
            if (path === "/v1/cluster/nodes") { return Response.json({nodes: [
              {name: "a", role: "owner", http: "10.0.0.7:7412", self: false, lsn: "9", address: "10.0.0.7:7411"},
              {name: "b", role: "follower", http: "", self: true, lsn: "9", address: ""}]}); }
            const reply = await real(path, options);
            return path.startsWith("/metrics") ? new Response((await reply.text()).replace(
              "\\ntenure_owner 1", "\\ntenure_owner 0")) : reply; }; })()""")
        self.see("#follows", "Open this view on the owner’s page")
        href = "document.querySelector('%s a').href"
        self.assertEqual(self.browser.value(href % "#follows"), "http://10.0.0.7:7412/#/pool/led")
        self.press("Drop …")
        self.click("#act-go")
        self.see("#act-result", "Go to the same view on its page")
        self.assertEqual(self.browser.value(href % "#act-result"), "http://10.0.0.7:7412/#/pool/led")

    def test_a_lease_says_why_it_is_as_long_as_it_is(self):
        self.do("POOL", "CREATE", "short", "RANGE", 1, 9, "LEASE", "30m")
        self.do("ALLOC", "short", "usual")
        self.do("ALLOC", "short", "special", "TTL", "12m")
        self.do("POOL", "CREATE", "kept", "RANGE", 1, 900, "STICKY", "yes", "LEASE", "30d",
                "high_rate_threshold_per_hour", 60)
        for i in range(150):
            self.do("ALLOC", "kept", "device-%d" % i)
        lease = self.lease_of("kept/1")
        self.do("RELEASE", lease, "device-0", 1)
        for target, words in (("short/1", "30 min, the lease of the pool."),
                              ("short/2", "12 min, as the client asked; the lease of the pool is 30 min."),
                              ("kept/2", "The pool keeps a value for 30 d after its holder has left."),
                              ("kept/1", "instead of 30 d: many newcomers arrived when its holder was last seen")):
            self.show("#/lease/" + self.lease_of(target))
            self.see("#lease-facts", words)

    def test_disown_ends_the_leases_as_it_says(self):
        self.do("POOL", "CREATE", "owned", "RANGE", 1, 5)
        for _ in range(2):
            self.do("ALLOC", "owned", "leaver")
        self.show("#/holder/leaver")
        self.see("#holder-note", "2 live leases")
        self.press("Disown …")
        self.see("#act-what", "All leases of leaver, 2 live leases, end now")
        self.click("#act-go")
        self.see("#act-result", "Done")
        self.see("#holder-note", "holds nothing now")

    def test_a_map_is_there_again(self):
        self.do("POOL", "CREATE", "mapped", "RANGE", 1, 2)
        self.show("#/pool/mapped")
        for view, cells in (("#/pool/mapped", 1), ("#/events", 0), ("#/pool/mapped", 1)):
            self.browser.value("location.hash = %s" % json.dumps(view))
            until(lambda cells=cells: self.browser.value(
                "document.querySelectorAll('#pool-map .cell').length") == cells, view)

    def test_a_refusal_is_shown_and_nothing_is_closed(self):
        self.do("POOL", "CREATE", "used", "RANGE", 1, 5)
        self.do("ALLOC", "used", "h")
        self.show("#/pool/used")
        self.press("Drop …")
        self.click("#act-go")
        self.see("#act-result", "POOL_IN_USE")

    def test_keys(self):
        self.show("")
        self.see("#h-state", "serving")
        for key, check in (("e", "location.hash === '#/events'"), ("h", "location.hash === '#/health'"),
                           ("/", "document.activeElement.id === 'query'")):
            self.browser.value("document.body.dispatchEvent(new KeyboardEvent('keydown', {key: %s, bubbles: true}))"
                               % json.dumps(key))
            until(lambda check=check: self.browser.value(check), check)
        self.do("POOL", "CREATE", "walked", "RANGE", 1, 9)
        self.show("")
        self.see("#pools", "walked")
        press = "(document.activeElement || document.body).dispatchEvent(new KeyboardEvent('keydown', {key: %s, bubbles: true}))"
        rows = "[...document.querySelectorAll('#pools tbody th a')].indexOf(document.activeElement)"
        self.browser.value(press % "'j'")
        self.assertEqual(self.browser.value(rows), 0)
        self.browser.value(press % "'ArrowDown'")
        self.browser.value(press % "'k'")
        self.assertEqual(self.browser.value(rows), 0)
        self.browser.value("document.activeElement.blur(); document.body.dispatchEvent("
                           "new KeyboardEvent('keydown', {key: '?', bubbles: true}))")
        self.see("#help", "search")
        self.click("#help-close")

    def test_health(self):
        self.show("#/health")
        self.see("#health-tables", "leases")
        self.see("#health-sync", "≤")

    def test_a_sensor_says_why_and_shows_its_output(self):
        self.do("SENSOR", "SET", "talker", "talk", json.dumps({
            "command": ["/bin/sh", "-c", "echo hello from the sensor; exec sleep 1000"], "settle_seconds": 0}))
        self.show("#/sensor/talker")
        self.see("#sensor-rules-note", "No rule wants it")
        self.press("Add a rule …")
        self.fill("#act-id", "because")
        self.click("#act-go")
        self.see("#act-result", "Done")
        self.click("#act-cancel")
        self.see("#sensor-facts", "running")
        self.see("#sensor-rules", "because")
        self.see("#sensor-log", "hello from the sensor")
        self.see("#sensor-life", "sensor.started")
        self.press("Stop (disable) …")
        self.see("#act", "The run is stopped, and no rule starts it until it is enabled.")
        self.browser.value("[...document.querySelectorAll('#act-go')][0].click()")
        self.see("#act-result", "Done")
        self.see("#sensor-facts", "disabled")
        self.do("RULE", "DELETE", "because")
        self.do("SENSOR", "DELETE", "talker")

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
        self.do("POOL", "CREATE", "huge", "RANGE", 1, 2 ** 32 - 1)
        self.show("#/pool/huge")
        self.see("#map-note", "a long cell")
        self.assertLessEqual(self.browser.value("document.documentElement.scrollWidth"), 360)
        self.browser.value("document.querySelector('#pool-map .cell').click()")
        self.see("#t-value", "huge/1")
        self.browser.call("Emulation.clearDeviceMetricsOverride")

    def test_a_server_that_goes_away_and_comes_back(self):
        server = Server(keep=True)
        try:
            self.browser.go("http://127.0.0.1:%d/" % server.http_port)
            self.see("#h-state", "serving")
            server.stop()
            self.see("#offline", "Disconnected, retrying")
            self.see("#offline", "If its process has ended, see its log")
            server.start()
            self.see("#h-state", "serving")
            self.assertEqual(self.browser.text("#offline"), "")
        finally:
            server.remove()

    def log_in(self, name, secret):
        until(lambda: self.browser.value("Boolean(document.querySelector('#login[open]'))"), "the log-in")
        self.fill("#login-name", name)
        self.fill("#login-secret", secret)
        self.browser.value("document.getElementById('login-form').requestSubmit()")

    def test_a_name_and_a_secret(self):
        with tempfile.TemporaryDirectory(prefix="tenure-web-") as home:
            hashed = subprocess.run([os.path.join(BUILD, "tenured"), "--hash-secret"], input=b"right\n", check=True,
                                    stdout=subprocess.PIPE, timeout=PATIENCE).stdout.decode().strip()
            file = os.path.join(home, "tenured.conf")
            with open(file, "w", encoding="ascii") as out:
                for name, role in (("boss", "admin"), ("guest", "reader")):
                    out.write("[user %s]\nrole = %s\nsecret = %s\n" % (name, role, hashed))
            server = Server(None, "--config", file)
            self.addCleanup(server.remove)
            with server.client(username="boss", password="right") as client:
                client.execute_command("POOL", "CREATE", "guarded", "RANGE", 1, 9)
            self.browser.go("http://127.0.0.1:%d/#/pool/guarded" % server.http_port)
            self.log_in("boss", "wrong")
            self.see("#login-note", "Wrong name or secret")
            self.assertEqual(self.browser.text("#pool-facts"), "")
            self.log_in("guest", "right")
            self.see("#pool-facts", "Free")
            self.see("#me", "guest (reader)")
            self.assertEqual(self.browser.text("#pool-act"), "")
            self.click("#log-out")
            self.log_in("boss", "right")
            self.see("#pool-act", "Change …")
            self.browser.value("location.hash = '#/sensors'")
            self.press("Add a sensor …")
            for name, text in (("ref", "made"), ("trigger", "t"), ("program", "/bin/sleep 1000")):
                self.fill("#act-" + name, text)
            self.see("#act-command", """tenure sensor set made t '{"command":["/bin/sleep","1000"]}'""")
            self.click("#act-go")
            self.see("#act-result", "Done")
            self.click("#act-cancel")
            self.browser.value("location.hash = '#/sensor/made'")
            self.see("#sensor-rules-note", "No rule wants it")
            self.press("Delete …")
            self.click("#act-go")
            self.see("#act-result", "Done")
            self.click("#act-cancel")


if __name__ == "__main__":
    unittest.main()
