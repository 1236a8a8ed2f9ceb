package analysis

import (
	"strings"

	"github.com/blevesearch/snowballstem"
)

// greekEndings are the commonest endings of Greek nouns, adjectives and verbs,
// longest first.
var greekEndings = strings.Fields(`
	ιότητασ ιότητα ότητασ ότητα ήσεων ήσεισ ήσεωσ ματοσ μάτων ματα ηκαν ήκαν ούσαν ούσε όντασ ώντασ
	ίζουν ίζει ουμε ούμε ονται εται άται ονταν όταν ηκε θηκε θηκαν ειών ιών ίων ιουσ ιού ίου εισ εων εωσ
	ουσ ούσ ων ών ου ού οι οί οσ όσ εσ έσ ησ ήσ ασ άσ αν άν ουν ούν ει εί α ά ε έ η ή ι ί ο ό υ ύ ω ώ σ`)

// stemGreek takes one ending off a folded Greek word and leaves three letters
// at least. It stands where Snowball has no stemmer; measured on XQuAD.
func stemGreek(env *snowballstem.Env) bool {
	word := env.Current()
	for _, e := range greekEndings {
		if stem, ok := strings.CutSuffix(word, e); ok && len(stem) >= 6 {
			env.SetCurrent(stem)
			return true
		}
	}
	return false
}
