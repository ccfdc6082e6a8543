#!/bin/sh
# Fails when generating changes a file, when a go.mod is not tidy, when a mutant does not fit the code any more, or when an alert rule
# does not hold its tests. Changes that are not committed yet do not matter: the tree before is compared with the tree after, each
# taken through an index of its own, so that git's is left alone.
set -eu
cd "$(dirname "$0")/.."

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

tree() {
	GIT_INDEX_FILE="$folder/$1" git add --all
	GIT_INDEX_FILE="$folder/$1" git write-tree
}

before=$(tree before)
go generate ./...
after=$(tree after)
if ! git diff --exit-code "$before" "$after"; then
	echo 'verify: the generated files were not up to date; they are now: review and commit them.' >&2
	exit 1
fi

if ! go mod tidy -diff || ! go -C tools mod tidy -diff || ! go -C tools/alerts mod tidy -diff; then
	echo 'verify: go.mod or go.sum is not tidy: run "go mod tidy" in the folder shown above.' >&2
	exit 1
fi
go -C tools run ./mutants -root .. -check
(cd tools/alerts && go run . ../../deploy/prometheus/paysaga.rules.test.yml)
echo 'verify: generated files, go.mod and mutants are up to date, and the alert rules hold.'
