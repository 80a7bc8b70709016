"""The version of the package, in the one place where it is written."""

VERSION = "0.1.0"
