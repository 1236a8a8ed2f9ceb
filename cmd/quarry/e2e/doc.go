// Package e2e tries quarry as people and programs meet it: the command is built
// and started as a process of its own, and everything goes through its ports.
//
//	page       Debian's Chromium runs the page's main paths, on a desktop and on a
//	           phone, light and dark, left to right and right to left
//	hostile    documents that would be markup, and are text
//	MCP        the SDK's client calls each tool, over stdio and over HTTP
//	OpenAPI    the description is checked by a validator, and live answers by it
//	load       64 connections read and write at the same time
//
// It is a module of its own, so that a browser's protocol and validators are no
// dependencies of quarry.
//
// Environment:
//
//	QUARRY_SCREENSHOTS  folder for screenshots; default the test's own, which goes
//	QUARRY_LONG=1       60 seconds of load instead of 3
//	CI                  what cannot run is a failure, not a skip
//
// Chromium is taken from PATH, and installed by apt-get where there is none and
// the tests run as root.
package e2e
