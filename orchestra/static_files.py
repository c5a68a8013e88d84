"""Static files with hashed names, also inside our own modules' imports."""

from whitenoise.storage import CompressedManifestStaticFilesStorage


class StaticFiles(CompressedManifestStaticFilesStorage):
    # Without this a module that is both a script and an import is loaded twice, under two names.
    support_js_module_import_aggregation = True
