import subprocess
import sys

PROGRAM = """
import numpy as np
from pallasite.interpreter.process import tune
a = np.random.default_rng(0).integers(-9, 9, (300, 300)).astype(np.float32)
before = a @ a + a
tune()
tune()
assert (a @ a + a == before).all()
"""


def test_results_are_the_same_after_tuning():
    subprocess.run([sys.executable, "-W", "error", "-c", PROGRAM], check=True)
