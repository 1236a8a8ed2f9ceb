// Package show forms what a terminal shows: tables, sizes, and passages with
// their matches marked.
//
// Promise: text from documents never controls the terminal. Control characters
// become spaces, white space runs become one space, and what is marked stays
// marked. Everything here is a pure function.
package show
