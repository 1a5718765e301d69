"""The programs of `hack/`, each started by the link of its name: `hack/sim` runs `sim`.

words     finds words and openings that the project's texts do not use
"""
