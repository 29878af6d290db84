"""Sensors that run while the keys of tokens change."""
import unittest

from harness import until
from sensors import SensorCase


class Rotate(SensorCase):
    def test_a_run_outlives_its_key(self):
        refs = [self.sensor("s%d" % i) for i in range(3)]
        before = {}
        for ref in refs:
            self.runs(ref)
            before[ref] = self.token(ref)
        self.do("TOKEN", "ROTATE")
        for ref in refs:  # what the old key has signed is good until its end
            self.assertIs(self.live(before[ref]), True)
            self.assertEqual(self.token(ref), before[ref])
        self.do("TOKEN", "ROTATE", "NOW")
        for ref in refs:
            self.assertIsNot(self.live(before[ref]), True)
            self.assertEqual(self.emit(before[ref], ref + ".trigger")[0], 401)
            until(lambda ref=ref: self.live(self.token(ref)) is True, "a new one is in its file")
            self.assertEqual(self.emit(self.token(ref), ref + ".trigger")[0], 200)
            self.assertEqual((self.status(ref)["state"], self.status(ref)["starts"]),
                             ("running", 1))


if __name__ == "__main__":
    unittest.main()
