"""A real browser for tests: Debian's Chromium, without a window."""
import base64
import json
import os
import shutil
import subprocess
import tempfile
import time

from harness import PATIENCE, Case, until

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


class Browser:
    """Chromium without a window, controlled over two pipes: a message is JSON and ends in a NUL."""

    def __init__(self, *flags):
        self.home = tempfile.mkdtemp(prefix="tenure-chromium-")
        to_read, self.to = os.pipe()
        self.of, of_write = os.pipe()

        def pipes():
            os.dup2(to_read, 3)
            os.dup2(of_write, 4)
        # Chromium uses the descriptors 3 and 4; ours must be others.
        to_read, of_write = (os.dup2(fd, fd + 100) for fd in (to_read, of_write))
        self.process = subprocess.Popen(
            [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--no-first-run", "--remote-debugging-pipe", "--user-data-dir=" + self.home, *flags],
            preexec_fn=pipes, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(of_write)
        self.waiting = b""
        self.number = 0
        self.session = None
        self.complaints = []  # exceptions, console errors, violations of the policy
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.complaints = []
        self.call("Runtime.enable")
        self.call("Log.enable")

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            while b"\0" in self.waiting:
                line, self.waiting = self.waiting.split(b"\0", 1)
                reply = json.loads(line)
                self.note(reply)
                if reply.get("id") == self.number:
                    assert "error" not in reply, reply
                    return reply["result"]
            more = os.read(self.of, 1 << 16)
            assert more, "Chromium is gone"
            self.waiting += more
        raise AssertionError("no answer to " + method)

    def note(self, message):
        """Stores the complaints of a page. An answer other than 200 and an unreachable server are no complaints:
        tests cause them on purpose."""
        params = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(params["exceptionDetails"]))
        elif message.get("method") == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
            self.complaints.append(json.dumps(params["args"]))
        elif (message.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error"
              and params["entry"]["source"] != "network"):
            self.complaints.append(params["entry"]["text"])

    def picture(self, path, width=1440, height=1000, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
        self.call("Emulation.clearDeviceMetricsOverride")

    def value(self, script):
        try:
            reply = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        except AssertionError as error:
            if "Inspected target navigated" not in str(error):
                raise
            reply = self.call("Runtime.evaluate", expression=script, returnByValue=True)  # on the new page
        assert "exceptionDetails" not in reply, reply
        return reply["result"].get("value")

    def text(self, selector):
        """The text of the element if it is visible, else ''."""
        return self.value("(() => { const e = document.querySelector(%s);"
                          "return e && e.getClientRects().length > 0 ? e.innerText : ''; })()"
                          % json.dumps(selector))

    def go(self, url):
        self.call("Page.navigate", url=url)

    def close(self):
        self.session = None
        try:
            self.call("Browser.close")
        except (AssertionError, OSError):
            self.process.kill()
        self.process.wait(PATIENCE)
        os.close(self.to)
        os.close(self.of)
        shutil.rmtree(self.home, ignore_errors=True)


class PageCase(Case):
    """A server, and its page in a browser."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        assert CHROMIUM, "Chromium is not installed: tools/deps.sh test"
        cls.browser = Browser()

    def tearDown(self):
        """No exception, no error on the console, no violation of the policy."""
        complaints, self.browser.complaints = self.browser.complaints, []
        self.assertEqual(complaints, [])

    def click(self, selector):
        self.browser.value("document.querySelector(%s).click()" % json.dumps(selector))

    def fill(self, selector, text):
        self.browser.value("(() => { const e = document.querySelector(%s); e.value = %s;"
                           "e.dispatchEvent(new Event('input')); e.dispatchEvent(new Event('change')); })()"
                           % (json.dumps(selector), json.dumps(text)))

    def press(self, text):
        """Presses the button with this text."""
        find = "[...document.querySelectorAll('main button')].find(b => b.textContent === %s)" % json.dumps(text)
        until(lambda: self.browser.value("Boolean(%s)" % find), "a button " + text)
        self.browser.value(find + ".click()")

    def lease_of(self, target):
        lease = self.do("LEASE", target)
        return dict(zip(lease[::2], lease[1::2]))["lease"]

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        super().tearDownClass()

    def show(self, view):
        """Loads the page afresh, without the state of an earlier test."""
        self.browser.go("about:blank")
        self.browser.go("http://127.0.0.1:%d/%s" % (self.server.http_port, view))

    def refresh(self):
        """The page asks the server now, as one that becomes visible does: the regular time is two seconds."""
        self.browser.value("document.dispatchEvent(new Event('visibilitychange'))")

    def see(self, selector, text):
        until(lambda: text in self.browser.text(selector),
              "%r in %s: %r" % (text, selector, self.browser.text(selector)))
