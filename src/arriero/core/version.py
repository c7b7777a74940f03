"""The version of the package; the build reads it here."""

VERSION = "0.1.0"
