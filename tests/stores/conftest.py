"""The suites' assertions are explained like those of test files."""

import pytest

pytest.register_assert_rewrite("offprompt.testing")
