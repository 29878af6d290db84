"""The page when something is wrong: a flood of events, refusals, an ended session, a narrow screen."""
import http.client
import json
import os
import subprocess
import tempfile
import unittest

from browser import Browser, PageCase
from harness import BUILD, PATIENCE, Case, Server, until
from tls_kit import Certificates, TlsServer

HOUR_MS = 3600 * 1000


def server_with_users(case, *names):
    """A server with administrators of these names; their secret is "right"."""
    home = tempfile.TemporaryDirectory(prefix="tenure-web-")
    case.addCleanup(home.cleanup)
    hashed = subprocess.run([os.path.join(BUILD, "tenured"), "--hash-secret"], input=b"right\n", check=True,
                            stdout=subprocess.PIPE, timeout=PATIENCE).stdout.decode().strip()
    file = os.path.join(home.name, "tenured.conf")
    with open(file, "w", encoding="ascii") as out:
        for name in names:
            out.write("[user %s]\nrole = admin\nsecret = %s\n" % (name, hashed))
    server = Server(None, "--config", file)
    case.addCleanup(server.remove)
    return server


class TroubleCase(PageCase):
    def script(self, text):
        self.browser.value("(() => { %s })()" % text)

    def later(self, ms):
        """The page's clock goes on by so much."""
        self.script("const real = Date.now; Date.now = () => real.call(Date) + %d;" % ms)

    def hide(self, hidden):
        self.script("Object.defineProperty(document, 'hidden', {value: %s, configurable: true});"
                    "document.dispatchEvent(new Event('visibilitychange'));" % json.dumps(hidden))

    def answer(self, condition, reply):
        """Requests for which the condition on `path` holds get this answer while window.answering is true."""
        self.script("const real = fetch; window.answering = true; window.asked = 0; window.fetch = async (path, options) => {"
                    "if (!window.answering || !(%s)) { return real(path, options); } window.asked++; return %s; };"
                    % (condition, reply))

    def refuse(self, condition, status, words):
        self.answer(condition, "Response.json({title: %s, detail: %s, status: %d}, {status: %d})"
                    % (json.dumps(words), json.dumps(words), status, status))

    def at_width(self, width):
        self.browser.call("Emulation.setDeviceMetricsOverride", width=width, height=844, deviceScaleFactor=1, mobile=True)
        self.addCleanup(self.browser.call, "Emulation.clearDeviceMetricsOverride")

    def log_in(self, name):
        until(lambda: self.browser.value("Boolean(document.querySelector('#login[open]'))"), "the log-in")
        self.fill("#login-name", name)
        self.fill("#login-secret", "right")
        self.browser.value("document.getElementById('login-form').requestSubmit()")
        self.see("#me", name)


class Trouble(TroubleCase):
    def flood(self, pool):
        self.do("POOL", "CREATE", pool, "RANGE", 1, 30000)
        self.show("#/events")
        self.see("#event-note", "live")
        self.hide(True)
        pipe = self.r.pipeline(transaction=False)
        for i in range(20000):
            pipe.execute_command("ALLOC", pool, "h%d" % i)
        pipe.execute()
        self.script("window.added = 0; new MutationObserver((all) => { for (const one of all) {"
                    "window.added += one.addedNodes.length; } }).observe(document.getElementById('events'), {childList: true});")

    def test_events_that_came_while_hidden_are_drawn_if_they_stay(self):
        self.flood("flooded")
        self.hide(False)
        self.see("#event-note", "live")
        self.do("ALLOC", "flooded", "the-last")
        self.see("#events li:first-child", "the-last")
        self.assertLess(self.browser.value("window.added"), 10000)
        self.assertLessEqual(self.browser.value("document.querySelectorAll('#events li').length"), 201)

    def test_a_page_that_was_hidden_for_long_begins_with_the_newest(self):
        self.flood("skipped")
        self.later(61000)
        self.hide(False)
        self.see("#events", "This page was hidden")
        self.see("#events li:first-child", "h19999")
        self.assertLess(self.browser.value("window.added"), 200)
        self.do("ALLOC", "skipped", "the-last")
        self.see("#events li:first-child", "the-last")

    def test_a_refusal_is_shown_in_its_view_until_it_is_over(self):
        words = "no node owns the log now"
        for view, ready, path in (("", "#h-state", "path.startsWith('/v1/pools')"), ("#/health", "#health-tables", "path.startsWith('/metrics')"),
                                  ("#/events", "#h-state", "path.startsWith('/metrics')")):
            self.show(view)
            self.see("#h-state", "serving")
            self.refuse(path, 503, words)
            self.see("#view-note", words)
            self.see("#view-note", "may be old")
            self.browser.value("window.answering = false")
            until(lambda: self.browser.text("#view-note") == "", "it is over")

    def test_the_rate_of_newcomers_is_that_of_the_moment(self):
        self.do("POOL", "CREATE", "kept", "RANGE", 1, 900, "STICKY", "yes", "LEASE", "30d", "high_rate_threshold_per_hour", 60)
        for i in range(150):
            self.do("ALLOC", "kept", "device-%d" % i)
        lease = self.lease_of("kept/1")
        self.do("RELEASE", lease, "device-0", 1)
        self.show("")
        self.see("#pools", "kept")
        # Samples of ten hours ago, and of five; later one of now. A server that has started again has a gap, too.
        self.answer("path.includes('/history')", "Response.json({time: (window.times || [10, 5]).map((h) => String(Date.now() - h * %d)),"
                    "peak: [], given: [], rate_per_hour: ['777', '888', '99'], kept: true})" % HOUR_MS)
        self.browser.value("location.hash = '#/lease/%s'" % lease)
        self.see("#lease-facts", "many newcomers arrived when its holder was last seen")
        self.assertNotIn("777", self.browser.text("#lease-facts"))
        self.browser.value("window.times = [10, 5, 0]")
        self.see("#lease-facts", "99 an hour")
        self.browser.value("window.asked = 0")
        before = self.browser.value("Number(document.body.dataset.refreshed)")
        until(lambda: self.browser.value("Number(document.body.dataset.refreshed)") > before + 2, "two refreshes")
        self.assertEqual(self.browser.value("window.asked"), 0)
        self.assertIn("99 an hour", self.browser.text("#lease-facts"))

    def test_a_small_share_of_a_large_pool_is_seen_in_the_chart(self):
        self.do("POOL", "CREATE", "large", "RANGE", 1, 16000000)
        self.show("#/pool/large")
        self.see("#t-pool", "large")
        self.answer("path.includes('/history')", """(() => { const zero = [0, 0, 0]; return Response.json({pool: "large", step: "hour",
            kept: true, time: [0, 60000, 120000].map(t => String(1794842640000 + t)), size: ["16000000", "16000000", "16000000"],
            reserved: zero, active: [4800, 4900, 5000], offline: zero, revoking: zero, cooling: zero, waiting: zero,
            peak: zero, given: zero, ended: zero, refused: zero, lease: zero, rate_per_hour: zero, ultra: zero,
            force_zero: zero}); })()""")
        self.script("const step = document.getElementById('history-step'); step.value = 'hour'; step.dispatchEvent(new Event('change'));")
        self.see("#chart-used .chart-note", "active 5")
        self.assertGreater(self.browser.value("document.querySelector('#chart-used polygon').getBoundingClientRect().height"), 50)

    def test_a_phone_sorts_and_shows_the_last_hour(self):
        self.do("POOL", "CREATE", "aa-roomy", "RANGE", 1, 100000)
        self.do("POOL", "CREATE", "zz-tight", "RANGE", 1, 4)
        self.do("ALLOC", "zz-tight", "h", "COUNT", 3)
        for width in (390, 360):
            self.at_width(width)
            self.show("")
            self.see("#pools", "aa-roomy")
            until(lambda: self.browser.value("(document.querySelector('#pools .spark') || document.body).getBoundingClientRect().width") > 40
                  and self.browser.value("document.querySelectorAll('#pools .spark').length") > 0, "a sparkline")
            self.assertTrue(self.browser.value("[...document.querySelectorAll('#pools thead button')].every((b) => {"
                                               "const box = b.getBoundingClientRect(); return box.width > 20 && box.height >= 24"
                                               "&& box.left >= 0 && box.right <= innerWidth; })"))
            for order, first in (("waiting", None), ("name", "aa-roomy")):
                self.click('#pools th[data-sort="%s"] button' % order)
                if first:
                    until(lambda first=first: self.browser.text("#pools tbody th a") == first, first)
            self.assertLessEqual(self.browser.value("document.documentElement.scrollWidth"), width)

    def test_all_scopes_of_a_template_can_be_seen(self):
        self.do("POOL", "CREATE", "a-template", "RANGE", 1, 9, "SCOPED", "yes")
        pipe = self.r.pipeline(transaction=False)
        for i in range(130):
            pipe.execute_command("ALLOC", "a-template@s%d" % i, "h")
        pipe.execute()
        self.show("")
        self.see("#pools", "a-template")
        self.click('#pools [aria-label="Scopes of a-template"]')
        shown = "[...document.querySelectorAll('#pools tbody th a')].filter((a) => a.textContent.startsWith('a-template@')).length"
        until(lambda: self.browser.value(shown) == 100, "the first 100")
        self.see("#pools .more:not([hidden])", "30 more scopes")
        self.click("#pools .more:not([hidden])")
        until(lambda: self.browser.value(shown) == 130, "all of them")

    def test_disown_says_how_many_leases_end(self):
        self.do("POOL", "CREATE", "owned", "RANGE", 1, 100)
        pipe = self.r.pipeline(transaction=False)
        for _ in range(60):
            pipe.execute_command("ALLOC", "owned", "leaver")
        pipe.execute()
        self.show("#/holder/leaver")
        self.see("#holder-note", "more than 50 live leases")
        self.press("Disown …")
        self.see("#act-what", "All leases of leaver, 60 live leases, end now")


class Sessions(TroubleCase):
    """With users."""

    def setUp(self):
        self.users = server_with_users(self, "boss", "second")
        self.boss = self.users.client(username="boss", password="right")
        self.addCleanup(self.boss.close)
        self.boss.execute_command("POOL", "CREATE", "guarded", "RANGE", 1, 9)
        self.boss.execute_command("ALLOC", "guarded", "secret-holder", "META", '{"note": "secret-note"}')

    def visit(self, view):
        self.browser.go("about:blank")
        self.browser.go("http://127.0.0.1:%d/%s" % (self.users.http_port, view))

    def forget(self):
        """The session of the browser's tab is over."""
        self.visit("")
        self.browser.value("sessionStorage.clear()")

    def test_an_ended_session_leaves_nothing(self):
        self.boss.execute_command("USER", "ADD", "temp", "ROLE", "operator", "SECRET", "right")
        self.visit("#/pool/guarded")
        self.addCleanup(self.forget)
        self.log_in("temp")
        self.see("#view-pool .leases", "secret-holder")
        until(lambda: self.browser.value("document.querySelector('#pool-map .cell')") is not None, "the map")
        self.press("Change …")
        self.fill("#query", "secret-ho")
        until(lambda: "secret-holder" in self.browser.value("document.getElementById('found').textContent"), "a result")
        self.boss.execute_command("USER", "DELETE", "temp")
        self.see("#login-note", "Wrong name or secret")
        self.assertFalse(self.browser.value("document.getElementById('act').open"))
        self.assertTrue(self.browser.value("document.getElementById('found').hidden"))
        self.assertNotIn("secret-", self.browser.value("document.documentElement.outerHTML"))

    def test_a_role_that_changes_changes_the_buttons(self):
        self.boss.execute_command("USER", "ADD", "riser", "ROLE", "operator", "SECRET", "right")
        self.visit("#/pool/guarded")
        self.addCleanup(self.forget)
        self.log_in("riser")
        self.see("#pool-act", "Change …")
        self.boss.execute_command("USER", "SET", "riser", "ROLE", "reader")
        self.press("Drop …")
        self.click("#act-go")
        self.see("#act-result", "NOPERM")
        until(lambda: self.browser.text("#pool-act") == "", "no buttons for a reader")
        self.see("#me", "riser (reader)")
        self.boss.execute_command("USER", "SET", "riser", "ROLE", "operator")
        self.later(61000)
        self.see("#pool-act", "Change …")

    def test_the_command_shown_names_the_user(self):
        self.visit("#/pool/guarded")
        self.addCleanup(self.forget)
        self.log_in("second")
        self.press("Drop …")
        self.see("#act-command", "curl -u second -X DELETE")

    def test_a_browsers_own_dialog_is_for_pages_only(self):
        """Scripts get the refusal without it: the page has its own log-in."""
        for fetched in (None, "document", "empty"):
            connection = http.client.HTTPConnection("127.0.0.1", self.users.http_port, timeout=PATIENCE)
            connection.request("GET", "/v1/pools", headers={"Sec-Fetch-Dest": fetched} if fetched else {})
            response = connection.getresponse()
            response.read()
            self.assertEqual(response.status, 401)
            self.assertEqual(response.getheader("WWW-Authenticate") is None, fetched == "empty", fetched)
            connection.close()


class Encrypted(Case):
    def test_requests_over_https_may_have_the_certificate_of_the_browser(self):
        certificates = Certificates()
        self.addCleanup(certificates.remove)
        server = TlsServer(None, *certificates.flags())
        self.addCleanup(server.remove)
        browser = Browser("--ignore-certificate-errors")
        self.addCleanup(browser.close)
        browser.go("https://localhost:%d/" % server.https_port)
        until(lambda: browser.text("#h-state") == "serving", "the page")
        browser.value("(() => { const real = fetch; window.fetch = (path, options) => { window.sent = options.credentials;"
                      "return real(path, options); }; })()")
        until(lambda: browser.value("window.sent") == "same-origin", "credentials of TLS: %s" % browser.value("window.sent"))
        self.assertEqual(browser.complaints, [])


if __name__ == "__main__":
    unittest.main()
