// Package manual writes what shells and man know of the program: completion
// scripts for bash, zsh, fish and PowerShell, and a page in roff.
//
// Promise: both come from the table that parses the command line and prints
// help, so they cannot tell of what is not there. The scripts are complete in
// themselves: they call no program. Equal tables give equal bytes. Text of the
// table is quoted for the language it is written in, so no help can break a
// script.
//
//	kong's model ─► tree ─► bash │ zsh │ fish │ powershell
//	                     └► roff
package manual
