#!/usr/bin/env python3
"""The example of a sensor, and the commands of the guide from Attune, typed in one shell, as by a user who
waits for each result before typing on."""
import json
import os
import re
import subprocess
import unittest

from attune_api import Api
from harness import BUILD, PATIENCE, pairs, text_of, until
from sensors import SensorCase

SOURCE = os.environ.get("TENURE_SOURCE_DIR", ".")
END = "--- end of it ---"


class Shell:
    """One shell for all lines: they share its variables."""

    def __init__(self, server, environment):
        path = os.path.abspath(BUILD) + ":" + os.environ["PATH"]
        self.server = server
        self.process = subprocess.Popen(
            ["/bin/sh"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, cwd=SOURCE,
            env=dict(os.environ, PATH=path, TENURE_PORT=str(server.port), **environment))

    def type(self, line):
        """Runs the line and returns its output. It must succeed."""
        line = re.sub(r"\bdata/", os.path.join(self.server.data, "data") + "/", line)
        line = line.replace("build/", os.path.abspath(BUILD) + "/")
        line = line.replace("7411", str(self.server.port)).replace("7412",
                                                                   str(self.server.http_port))
        self.process.stdin.write("%s\nprintf '\\n%s %%d\\n' $?\n" % (line, END))
        self.process.stdin.flush()
        printed = []
        for out in self.process.stdout:
            if out.startswith(END):
                assert out.split()[-1] == "0", (line, printed)
                return "".join(printed)
            printed.append(out)
        raise AssertionError("the shell is gone: %s" % printed)

    def close(self):
        self.process.stdin.close()
        self.process.wait(PATIENCE)
        self.process.stdout.close()


class Words(SensorCase):
    def shell(self, **environment):
        shell = Shell(self.server, environment)
        self.addCleanup(shell.close)
        return shell

    def has_said(self, ref, words):
        """Waits until its output has reached its files."""
        until(lambda: words in pairs(self.do("SENSOR", "LOGS", ref))["output"], words)

    def test_the_example_reads_the_variable_that_its_description_names(self):
        example = os.path.join(SOURCE, "examples/interval-sensor/interval-sensor.py")
        self.do("SENSOR", "SET", "renamed", "renamed.tick",
                json.dumps({"command": [example, "0.1"], "token_env": "ATTUNE_API_TOKEN",
                            "settle_seconds": 0.01}))
        self.do("RULE", "SET", "renamed", "renamed.tick")
        self.reaches("renamed", "running")
        self.has_said("renamed", "event 2 emitted")
        self.do("RULE", "DELETE", "renamed")

    def test_the_guide_from_attune(self):
        """Its sensor does not know Tenure, and uses an API that asks Tenure about tokens."""
        ref = "core.interval_timer_sensor"
        guide = text_of(os.path.join(SOURCE, "docs/migration/attune.md"))
        blocks = re.findall(r"```sh\n(.*?)```", guide, re.DOTALL)
        self.assertEqual(len(blocks), 6)
        api = Api("http://127.0.0.1:%d" % self.server.http_port)
        self.addCleanup(api.close)
        shell = self.shell()
        self.assertIn("OK", shell.type(blocks[0].replace("8080", str(api.port))))
        self.assertIn('"state":"stopped"', shell.type(blocks[1]))
        shell.type(blocks[2])
        self.reaches(ref, "running")
        until(lambda: len(api.events) > 10, "events, also after a refresh")
        self.has_said(ref, "token refreshed")
        self.assertEqual(api.events[0], ("sensor:" + ref, "core.intervaltimer", {"tick": 1}))
        seen = shell.type(blocks[3])
        for words in ("running", "started", "tick 1", "token refreshed"):
            self.assertIn(words, seen)
        token = self.token(ref)
        shell.type(blocks[4])
        self.reaches(ref, "stopped")
        self.assertIn("no_rules", shell.type(blocks[5]))
        self.assertEqual([self.live(token), self.emit(token, "core.intervaltimer")[0]],
                         ["stale", 401])
        self.assertEqual(self.status(ref)["crashes"], 0)

    def test_a_sensor_of_attune_speaks_to_tenure_itself(self):
        """The same program, unchanged, with another address of the API."""
        ref = "core.interval_timer_sensor"
        spec = {"command": ["/usr/bin/python3", os.path.join(SOURCE, "tests/e2e/attune_sensor.py")],
                "token_env": "ATTUNE_API_TOKEN", "settle_seconds": 0.2,
                "env": {"ATTUNE_API_URL": "http://127.0.0.1:%d" % self.server.http_port,
                        "ATTUNE_SENSOR_REF": ref}}
        self.do("SENSOR", "SET", ref, "core.intervaltimer", json.dumps(spec))
        self.do("RULE", "SET", "every-5-minutes", "core.intervaltimer")
        self.reaches(ref, "running")
        until(lambda: self.status(ref)["emitted"] > 10, "events, also after a refresh")
        self.has_said(ref, "token refreshed")
        self.do("RULE", "DISABLE", "every-5-minutes")
        self.reaches(ref, "stopped")
        self.assertEqual(self.status(ref)["crashes"], 0)


if __name__ == "__main__":
    unittest.main()
