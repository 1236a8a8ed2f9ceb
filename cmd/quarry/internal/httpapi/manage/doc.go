// Package manage changes the catalogue of spaces for package httpapi: workspaces,
// accounts and their grants, spaces and their profiles, workflows and their
// bindings. It does what the commands space, profile and workflow do.
//
//	httpapi route ─ Call{registry, catalogue, who acts} + input ─► function ─► answer
//
// Each function is one route. The rules are the catalogue's: who acts needs the
// permission, and a stale revision is refused. The account "" is the operator,
// who may do everything; which accounts a caller may act as is httpapi's to say.
//
// Functions may be called from any goroutine, and cost one transaction of the
// catalogue at most; Run costs its workflow.
package manage
