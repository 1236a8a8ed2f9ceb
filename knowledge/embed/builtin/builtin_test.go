package builtin

import (
	"strings"
	"testing"
)

func TestNew(t *testing.T) {
	for language, want := range map[string]string{
		"en": "bge-small-en", "EN": "bge-small-en", "en-GB": "bge-small-en", "en_US": "bge-small-en", "eng": "bge-small-en",
		"": "e5-small", "de": "e5-small", "zh-CN": "e5-small", "enm": "e5-small",
	} {
		e, err := New(language, nil)
		if err != nil {
			t.Fatal(err)
		}
		if id := e.Identity(); !strings.Contains(id.Name, want) {
			t.Errorf("%q: %s, want %s", language, id.Name, want)
		}
	}
}
