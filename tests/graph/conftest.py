"""Test files here share modules (road_modules.py), which importlib mode does not put on the path."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
