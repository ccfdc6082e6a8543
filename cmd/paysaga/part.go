package main

import (
	"os"

	"paysaga/internal/config"
)

// loadPart reads a part of the settings: those of the environment, or of a running "paysaga dev" where that names no database.
func loadPart(dir string, load func(environ []string) (config.Config, error)) (config.Config, error) {
	environ := os.Environ()
	if os.Getenv("DATABASE_URL") == "" {
		url, err := databaseURL(dir)
		if err != nil {
			return config.Config{}, err
		}
		file, err := readDevFile(dir)
		if err != nil {
			return config.Config{}, err
		}
		for name, value := range file.Env {
			environ = append(environ, name+"="+value)
		}
		environ = append(environ, "DATABASE_URL="+url)
	}
	return load(environ)
}
