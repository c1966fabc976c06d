"""What pyproject.toml cannot say: the README as a package index shows it, with links that lead."""

import sys
from pathlib import Path

from setuptools import setup

sys.path.insert(0, str(Path(__file__).parent / "docs" / "site"))

from page_links import long_description

setup(long_description=long_description(), long_description_content_type="text/markdown")
