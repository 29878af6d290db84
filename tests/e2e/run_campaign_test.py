#!/usr/bin/env python3
"""A short form of the campaign of `tenure run`: run_campaign.py describes it."""
import unittest

from run_campaign import Campaign


class Short(unittest.TestCase):
    def test_two_holders_are_never_alive_together(self):
        Campaign().run()


if __name__ == "__main__":
    unittest.main(verbosity=2)
