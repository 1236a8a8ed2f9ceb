package analysis

import (
	"strings"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/arabic"
	"github.com/blevesearch/snowballstem/danish"
	"github.com/blevesearch/snowballstem/dutch"
	"github.com/blevesearch/snowballstem/english"
	"github.com/blevesearch/snowballstem/finnish"
	"github.com/blevesearch/snowballstem/french"
	"github.com/blevesearch/snowballstem/german"
	"github.com/blevesearch/snowballstem/hungarian"
	"github.com/blevesearch/snowballstem/irish"
	"github.com/blevesearch/snowballstem/italian"
	"github.com/blevesearch/snowballstem/norwegian"
	"github.com/blevesearch/snowballstem/portuguese"
	"github.com/blevesearch/snowballstem/romanian"
	"github.com/blevesearch/snowballstem/russian"
	"github.com/blevesearch/snowballstem/spanish"
	"github.com/blevesearch/snowballstem/swedish"
	"github.com/blevesearch/snowballstem/tamil"
	"github.com/blevesearch/snowballstem/turkish"
)

// A language is the difference between one analyzer and "standard".
type language struct {
	name        string
	codes       string // ISO 639-1 and 639-3
	kind        kind
	stem        func(*snowballstem.Env) bool
	stops       string
	elisions    string
	possessive  bool
	turkish     bool
	keepAccents bool
	couples     bool // since version 3
}

// newest is the version of the rules of new fields.
func (l *language) newest() uint8 {
	if l.couples {
		return version3
	}
	return version2
}

// languages is constant data. The order gives cache keys only; "standard" is
// first.
var languages = [...]language{
	{name: "standard"},
	{name: "code", kind: kindCode},
	{name: "keyword", kind: kindKeyword},
	{name: "arabic", codes: "ar ara arb", stem: arabic.Stem, stops: stopArabic},
	{name: "chinese", codes: "zh zho chi cmn yue", stops: stopChinese},
	{name: "japanese", codes: "ja jpn", stops: stopJapanese},
	{name: "danish", codes: "da dan", stem: danish.Stem, stops: stopDanish},
	{name: "dutch", codes: "nl nld dut", stem: dutch.Stem, stops: stopDutch},
	{name: "english", codes: "en eng", stem: english.Stem, stops: stopEnglish, possessive: true},
	{name: "finnish", codes: "fi fin", stem: finnish.Stem, stops: stopFinnish},
	{name: "french", codes: "fr fra fre", stem: french.Stem, stops: stopFrench, elisions: elisionsFrench},
	{name: "german", codes: "de deu ger", stem: german.Stem, stops: stopGerman},
	{name: "greek", codes: "el ell gre", stem: stemGreek, stops: stopGreek},
	{name: "hindi", codes: "hi hin", stem: stemHindi, stops: stopHindi},
	{name: "hungarian", codes: "hu hun", stem: hungarian.Stem, stops: stopHungarian},
	{name: "irish", codes: "ga gle", stem: irish.Stem, stops: stopIrish, elisions: "d m b"},
	{name: "italian", codes: "it ita", stem: italian.Stem, stops: stopItalian, elisions: elisionsItalian},
	{name: "norwegian", codes: "no nb nn nor nob nno", stem: norwegian.Stem, stops: stopNorwegian},
	{name: "portuguese", codes: "pt por", stem: portuguese.Stem, stops: stopPortuguese},
	{name: "romanian", codes: "ro ron rum", stem: romanian.Stem, stops: stopRomanian},
	{name: "russian", codes: "ru rus", stem: russian.Stem, stops: stopRussian},
	{name: "spanish", codes: "es spa", stem: spanish.Stem, stops: stopSpanish},
	{name: "swedish", codes: "sv swe", stem: swedish.Stem, stops: stopSwedish},
	{name: "tamil", codes: "ta tam", stem: tamil.Stem, stops: stopTamil},
	{name: "turkish", codes: "tr tur", stem: turkish.Stem, stops: stopTurkish, turkish: true},
	{name: "vietnamese", codes: "vi vie", stops: stopVietnamese, keepAccents: true, couples: true},
}

func (l *language) analyzer(id, version uint8) *Analyzer {
	a := &Analyzer{
		name: l.name, id: id, kind: l.kind, version: version, stem: l.stem,
		possessive: l.possessive, turkish: l.turkish, keepAccents: l.keepAccents, couples: l.couples && version >= version3,
	}
	if l.stops != "" {
		a.stops = make(map[string]struct{})
		var f folder
		var buf []byte
		for w := range strings.FieldsSeq(l.stops) {
			buf = f.foldCase(buf[:0], w, a.foldFlags())
			a.stops[string(buf)] = struct{}{}
		}
	}
	if l.elisions != "" {
		a.elisions = make(map[string]struct{})
		for w := range strings.FieldsSeq(l.elisions) {
			a.elisions[w] = struct{}{}
		}
	}
	return a
}
