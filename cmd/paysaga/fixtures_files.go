package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"paysaga/saga/fixture"
)

// fixtureFiles are the files that are named, and those in the folders that are.
func fixtureFiles(paths []string) (files []string, err error) {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err //nolint:wrapcheck // it names the file and what is wrong
		}
		if !info.IsDir() {
			files = append(files, path)
			continue
		}
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, err //nolint:wrapcheck // as above
		}
		before := len(files)
		for _, entry := range entries {
			if isFixture(entry) {
				files = append(files, filepath.Join(path, entry.Name()))
			}
		}
		if len(files) == before {
			return nil, fmt.Errorf("%s has no *.yaml files", path)
		}
	}
	return files, nil
}

func isFixture(entry fs.DirEntry) bool {
	return !entry.IsDir() && slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(entry.Name()))
}

// readFixtures reads all files, so that a mistake in the last one is told before anything is played.
func readFixtures(files []string) ([]*replay, error) {
	replays, mistakes := make([]*replay, len(files)), make([]error, len(files))
	for i, file := range files {
		text, err := readBounded(file)
		if err != nil {
			mistakes[i] = err
			continue
		}
		f, err := fixture.Read(file, bytes.NewReader(text))
		if err != nil {
			mistakes[i] = err
			continue
		}
		replays[i] = &replay{File: file, Description: f.Description, text: text, fixture: f}
	}
	return replays, errors.Join(mistakes...)
}

// readBounded reads a file as far as fixtures may be long, and a byte more. What is no regular file may never end.
func readBounded(file string) ([]byte, error) {
	info, err := os.Lstat(file)
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the file and what is wrong
	}
	if !info.Mode().IsRegular() {
		return nil, notRegular(file)
	}
	opened, err := os.Open(file) //nolint:gosec // the user names it
	if err != nil {
		return nil, err //nolint:wrapcheck // as above
	}
	defer func() { _ = opened.Close() }()
	text, err := io.ReadAll(io.LimitReader(opened, fixture.MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read a fixture: %w", err)
	}
	return text, nil
}

func notRegular(file string) error {
	return fmt.Errorf("%s is no regular file (a link, a pipe or a device); name the file itself", file)
}

// update writes what was got into the file.
func (r *replay) update(result fixture.Result) error {
	updated, err := fixture.Updated(r.text, r.fixture, result)
	if err != nil {
		return fmt.Errorf("%s: %w", r.File, err)
	}
	if err := r.write(updated); err != nil {
		return fmt.Errorf("update %s: %w", r.File, err)
	}
	r.Updated = true
	return nil
}

// write replaces the file by one that was written whole. A link that has taken its place meanwhile is replaced, not followed.
func (r *replay) write(text []byte) error {
	info, err := os.Lstat(r.File)
	if err != nil {
		return err //nolint:wrapcheck // it names the file and what is wrong
	}
	if !info.Mode().IsRegular() {
		return notRegular(r.File)
	}
	written, err := os.CreateTemp(filepath.Dir(r.File), ".paysaga-fixture-")
	if err != nil {
		return err //nolint:wrapcheck // as above
	}
	defer func() { _ = os.Remove(written.Name()) }() // it is gone when all went well
	_, err = written.Write(text)
	err = errors.Join(err, written.Chmod(info.Mode().Perm()), written.Close())
	if err == nil {
		err = os.Rename(written.Name(), r.File)
	}
	return err //nolint:wrapcheck // as above
}
