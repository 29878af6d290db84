"""The alert rules and the dashboard of the packages: promtool reads every expression, and each
names only metrics that the server has. tests/e2e/metrics_test.py checks docs/metrics.md against it."""
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import yaml

from harness import PATIENCE, text_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
RULES = ROOT / "packaging/prometheus/tenure.rules.yml"
TESTS = ROOT / "packaging/prometheus/tenure.test.yml"
DASHBOARD = ROOT / "packaging/grafana/tenure.json"


def promtool(*arguments):
    done = subprocess.run(["promtool", *map(str, arguments)], timeout=PATIENCE, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout


def alerts():
    return [rule for group in yaml.safe_load(text_of(RULES))["groups"] for rule in group["rules"]]


def panels():
    return json.loads(text_of(DASHBOARD))["panels"]


def panel_expressions():
    return [target["expr"] for panel in panels() for target in panel.get("targets", [])]


class Monitoring(unittest.TestCase):
    def test_the_alert_rules_are_valid_and_pass_their_tests(self):
        promtool("check", "rules", RULES)
        promtool("test", "rules", TESTS)

    def test_every_alert_is_tested_firing_and_quiet(self):
        cases = yaml.safe_load(text_of(TESTS))["tests"]
        for alert in (rule["alert"] for rule in alerts()):
            expected = [bool(test["exp_alerts"]) for case in cases for test in case["alert_rule_test"]
                        if test["alertname"] == alert]
            self.assertEqual(sorted(expected), [False, True], alert)

    def test_every_expression_of_the_dashboard_is_valid(self):
        rules = [{"record": "panel:%d" % i, "expr": expression.replace("$__rate_interval", "5m")}
                 for i, expression in enumerate(panel_expressions())]
        self.assertGreater(len(rules), 30)
        with tempfile.TemporaryDirectory() as scratch:
            path = os.path.join(scratch, "panels.yml")
            with open(path, "w", encoding="utf-8") as file:
                yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}, file)
            promtool("check", "rules", path)

    def test_the_panels_have_places_of_their_own(self):
        taken = set()
        for panel in panels():
            place = panel["gridPos"]
            for x in range(place["x"], place["x"] + place["w"]):
                for y in range(place["y"], place["y"] + place["h"]):
                    self.assertNotIn((x, y), taken, panel["title"])
                    taken.add((x, y))
            self.assertLessEqual(place["x"] + place["w"], 24, panel["title"])
        self.assertEqual(len({panel["id"] for panel in panels()}), len(panels()))

    def test_only_metrics_of_the_server_are_used(self):
        known = set(re.findall(r"^\| `([a-z_]+)` \|", text_of(ROOT / "docs/metrics.md"), re.M)) | {"up"}
        for expression in [rule["expr"] for rule in alerts()] + panel_expressions():
            for name in re.findall(r"\b(?:tenure|process)_[a-z_]+", expression):
                self.assertIn(re.sub("_bucket$", "", name), known, expression)


if __name__ == "__main__":
    unittest.main()
