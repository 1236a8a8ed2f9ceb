// Package lint holds the project's style as tests: which package may import
// which, how long files and functions may be, what may not be imported or called,
// and what text files may contain. It exports nothing; `go test ./internal/lint`
// is its use, and each finding is a line "file:line: what is wrong".
//
// The rules read the tree below go.mod as it lies on disk, tracked or not, so a
// finding shows before a commit does. Folders named testdata or starting with an
// underscore (generators, modules of their own) are held to the rules for text
// only. Exceptions are tables in rules_test.go, each with its reason.
package lint
