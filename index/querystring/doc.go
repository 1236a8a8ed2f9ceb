// Package querystring parses the small query language that people know from
// search boxes.
//
//	river bank            words; Options.Operator joins them
//	"river bank"          a phrase; "river bank"~2 lets two places between
//	"new yor*"            a phrase whose last word may go on
//	+river -bank          must, must not
//	river AND bank, a OR b, NOT bank
//	(a OR b) c            groups
//	title:river           in one field; title:(river bank), title:"river bank"
//	riv*  r?ver           a word that starts so; ? one character, * any
//	rivver~  rivver~1     a word with errors, by its length or as many as said
//	river^2               weighs double; also of phrases and groups
//	\+  C\+\+             a backslash makes the next character text
//
// # Promise
//
// Parse takes any text and never fails: what is no syntax is a word to look
// for, and a note says so with its place (byte offset, from 0). So user:/home,
// C++, 10:30 and a lone quote find what they say. Time and memory are linear in
// the text; groups nested deeper than MaxDepth are read as one.
//
// # Rules
//
//   - A sign + or - counts before a word, phrase or group, at a border of words:
//     e-mail is one word. So does NOT. AND, OR and NOT are words unless written
//     in capitals, and where they join nothing.
//   - AND binds tighter than OR. Words side by side are joined by the operator
//     of Options, which binds like OR when it is Or and between the two when it
//     is And: a b OR c is (a and b) or c.
//   - With a + in a group, the words without a sign only add to the score.
//   - A name before a colon is a field only when Options.Field knows it.
//   - Plain words side by side are one clause, in which the analyzer sees the
//     text as it stands; so a query without any syntax scores as index.TextQuery's
//     Text does.
package querystring
