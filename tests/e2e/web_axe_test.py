"""axe-core finds nothing serious in any view and dialog of the page, wide and on a phone, light and dark."""
import json
import os
import subprocess
import unittest

from browser import PageCase
from harness import text_of, until

SOURCE = os.environ.get("TENURE_SOURCE_DIR", ".")
HISTORY = """(() => { const real = fetch; window.fetch = async (path, options) => {
    if (!String(path).includes("/history")) { return real(path, options); }
    const some = [1, 2, 3], times = [0, 60000, 120000].map((t) => String(1794842640000 + t));
    return Response.json({pool: "axed", step: "minute", kept: true, time: times, size: ["5", "5", "5"], reserved: some, active: some,
      offline: some, revoking: some, cooling: some, waiting: some, peak: some, given: some, ended: some, refused: some,
      lease: some, rate_per_hour: some, ultra: [0, 1, 0], force_zero: [0, 1, 0]}); }; })()"""


class Axe(PageCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        modules = subprocess.run([os.path.join(SOURCE, "tools/npm.sh")], check=True, stdout=subprocess.PIPE,
                                 text=True).stdout.strip()
        cls.axe = text_of(os.path.join(modules, "axe-core", "axe.min.js"))

    def furnish(self):
        self.do("POOL", "CREATE", "axed", "RANGE", 1, 3, "EXCLUDE", "2")
        self.do("POOL", "CREATE", "sticky", "RANGE", 1, 3, "STICKY", "yes", "LEASE", "1h", "high_rate_threshold_per_hour", 60)
        self.do("ALLOC", "axed", "reader/1", "COUNT", 2, "META", '{"a": 1}')
        self.do("SENSOR", "SET", "broken", "t", json.dumps(
            {"command": ["/no/such/program"], "settle_seconds": 0, "max_restarts": 0}))
        self.do("RULE", "SET", "r", "t")
        self.lease = self.lease_of("axed/1")

    def states(self):
        """Views, what shows that they are drawn, and what is done in them before they are judged."""
        def charts():
            self.browser.value(HISTORY + "; const step = document.getElementById('history-step'); step.value = 'hour';"
                               "step.dispatchEvent(new Event('change'))")
            until(lambda: self.browser.value("document.querySelectorAll('.charts svg').length") >= 4, "charts")
            self.browser.value("document.querySelectorAll('.charts details, #view-pool details').forEach((d) => { d.open = true; })")

        def search(text, found):
            self.fill("#query", text)
            self.see("#found", found)

        def help_():
            self.browser.value("document.body.dispatchEvent(new KeyboardEvent('keydown', {key: '?', bubbles: true}))")
            self.see("#help", "Keys")

        def create():
            self.press("Create a pool …")
            self.see("#act", "Create a pool")

        def log_in():
            self.browser.value("document.getElementById('login').showModal()")

        return [("", "#pools", lambda: search("axed", "axed")), ("", "#pools", create), ("", "#pools", help_), ("", "#pools", log_in),
                ("#/pool/axed", "#pool-map", lambda: None), ("#/pool/sticky", "#pool-map", charts),
                ("#/lease/" + self.lease, "#lease-life", lambda: self.press("Revoke …")),
                ("#/value/axed/1", "#value-life", lambda: None), ("#/holder/reader%2F1", "#holder-life", lambda: None),
                ("#/sensors", "#sensors tbody", lambda: self.see("#sensors", "not tried again")),
                ("#/sensor/broken", "#sensor-life", lambda: self.see("#sensor-rules", "Disable")),
                ("#/find/reader%2F1", "#view-find .leases", lambda: None),
                ("#/events", "#events", lambda: search("zzz", "Nothing begins with this")), ("#/health", "#health-sync", lambda: None)]

    def reach(self, view, ready, prepare):
        self.show(view)
        # Some of the elements are in the file itself: without the count the page could be judged before its styles
        # and its script were there.
        until(lambda: self.browser.value("Number(document.body && document.body.dataset.refreshed) >= 1"), view)
        self.refresh()
        until(lambda: self.browser.value(
            "Number(document.body.dataset.refreshed) >= 2 && "
            "Boolean((document.querySelector(%s) || {}).childElementCount)" % json.dumps(ready)), ready)
        prepare()

    def judged(self, rules, least):
        self.browser.call("Runtime.evaluate", expression=self.axe)
        got = self.browser.call("Runtime.evaluate", awaitPromise=True, returnByValue=True, expression="""
            axe.run(document, %s).then(r => r.passes.length < %d ? ["too few rules"] : r.violations
              .filter(v => ["serious", "critical"].includes(v.impact) || v.id === "page-has-heading-one")
              .map(v => v.id + ": " + v.nodes.slice(0, 3).map(n => n.target.join(" ")).join("; ")))""" % (rules, least))
        return got["result"]["value"]

    def test_axe_finds_nothing_serious(self):
        self.furnish()
        found = []
        # The elements are the same in the dark; only their colors are others.
        for width, dark, rules, least in ((1440, False, "{}", 10), (1440, True, '{runOnly: ["color-contrast"]}', 1),
                                          (390, False, "{}", 10)):
            self.browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
            self.browser.call("Emulation.setEmulatedMedia", features=[
                {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
            for view, ready, prepare in self.states():
                self.reach(view, ready, prepare)
                found += ["%s %d %s %s" % (view, width, "dark" if dark else "light", line) for line in self.judged(rules, least)]
        self.browser.call("Emulation.setEmulatedMedia", features=[])
        self.browser.call("Emulation.clearDeviceMetricsOverride")
        self.assertEqual(found, [])


if __name__ == "__main__":
    unittest.main()
