"""``--full`` runs the statistical checks at their full size and prints what they found: ``make check-statistics``."""

import pytest


def pytest_addoption(parser):
    about = "statistical checks at their full size, with a table of p-values"
    parser.addoption("--full", action="store_true", help=about)


def _is_full(config):
    return config.getoption("full", False)  # unknown where pytest was started elsewhere and came here on its way


def pytest_generate_tests(metafunc):
    if "staleness" in metafunc.fixturenames:
        kinds = tuple(
            metafunc.module.STALENESS
        )  # this file may not import stalegrad before numba's cache has its place
        metafunc.parametrize("staleness", kinds if _is_full(metafunc.config) else kinds[-1:])


@pytest.fixture(scope="session")
def full(pytestconfig):
    """Whether the checks run at their full size."""
    return _is_full(pytestconfig)


@pytest.fixture
def add_row(record_property):
    """Puts a row of words into the table of that title, which is printed at the end."""

    def put(title, **row):
        record_property("table", (title, row))

    return put


def pytest_terminal_summary(terminalreporter, config):
    if not _is_full(config):
        return
    tables = {}
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            for name, value in report.user_properties:
                if name == "table" and report.when == "call":
                    title, row = value
                    tables.setdefault(title, []).append((report.nodeid, {**row, "": outcome}))
    for title in sorted(tables):
        rows = [row for _, row in sorted(tables[title], key=lambda entry: entry[0])]
        columns = list(rows[0])
        widths = {c: max(len(c), *(len(row[c]) for row in rows)) for c in columns}
        terminalreporter.section(title)
        for row in ({c: c for c in columns}, *rows):
            terminalreporter.write_line("  ".join(row[c].ljust(widths[c]) for c in columns).rstrip())
