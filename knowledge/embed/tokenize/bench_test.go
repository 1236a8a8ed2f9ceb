package tokenize

import (
	"go/build"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// benchText is English prose: the documentation of the Go toolchain.
func benchText(b *testing.B) string {
	b.Helper()
	var all strings.Builder
	for _, name := range []string{"README.md", "CONTRIBUTING.md", "src/net/http/doc.go", "src/fmt/doc.go", "src/text/template/doc.go", "src/testing/testing.go"} {
		data, err := os.ReadFile(filepath.Join(build.Default.GOROOT, name))
		if err != nil {
			b.Skip("no documentation in GOROOT")
		}
		all.Write(data)
	}
	return all.String()
}

func benchTokenize(b *testing.B, tok Tokenizer, text string) {
	dst := tok.Tokenize(nil, text)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		dst = tok.Tokenize(dst[:0], text)
	}
	b.ReportMetric(float64(len(dst))/float64(len(text)), "tokens/B")
}

// The small vocabularies of testdata; the models' are in BenchmarkModels.
func BenchmarkSmall(b *testing.B) {
	text := benchText(b)
	g := readGoldens(b)
	for _, name := range []string{"wordpiece-lower", "unigram"} {
		b.Run(name, func(b *testing.B) {
			tok, err := LoadTokenizerJSON(g.Small[name].Tokenizer)
			if err != nil {
				b.Fatal(err)
			}
			benchTokenize(b, tok, text)
		})
	}
}

var benchModels = map[string]string{
	"wordpiece": "all-minilm-l6-v2-f32/tokenizer.json",
	"unigram":   "multilingual-e5-small-q4/e5-small-q4.bin",
}

func BenchmarkModels(b *testing.B) {
	for kind, name := range benchModels {
		b.Run(kind+"/en", func(b *testing.B) { benchTokenize(b, openModel(b, name), benchText(b)) })
		data := os.Getenv("QUARRY_DATA")
		for _, lang := range []string{"de", "hi", "ja", "ru", "th", "zh"} {
			b.Run(kind+"/"+lang, func(b *testing.B) {
				if data == "" {
					b.Skip("QUARRY_DATA is not set")
				}
				text := strings.Join(stagedTexts(b, data, lang), "\n")
				benchTokenize(b, openModel(b, name), text[:min(len(text), 1<<19)])
			})
		}
	}
}

func BenchmarkParse(b *testing.B) {
	for kind, name := range benchModels {
		b.Run(kind, func(b *testing.B) {
			enc, err := Append(nil, openModel(b, name))
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(enc)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse(enc); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
