package chunk

import (
	"math"
	"strings"
	"testing"
)

// BenchmarkChunks reports the bytes of text cut a second, on one core.
func BenchmarkChunks(b *testing.B) {
	english := strings.Repeat("The quick brown fox, of course, jumps over 12 lazy dogs. It doesn't\nstop at Dr. Smith's door; why should it?\n\n## A heading\n\nMore of it follows here (as said above), line by line.\n\n", 4000)
	mixed := corpus(b)
	chinese := strings.Repeat("我们今天去公园散步，天气很好。\n你想一起来吗？当然！\n\n", 8000)
	for _, bm := range []struct {
		name string
		o    Options
	}{
		{"word", Options{Unit: Word}},
		{"paragraph", Options{Unit: Paragraph, Size: new(5)}},
		{"sentence", Options{Unit: Sentence, Size: new(10)}},
		{"token", Options{}},
		{"custom", Options{Unit: Custom, Size: new(3)}},
		{"page", Options{Unit: Page, Size: new(1), TokenLimit: math.MaxInt}},
		{"divide", Options{Strategy: Divide, Unit: Word, Size: new(1000)}},
		{"atsentence", Options{Unit: Word, AtSentence: true}},
		{"structure", Options{Strategy: Structure, Unit: Word}},
	} {
		for _, text := range []struct{ name, text string }{{"english", english}, {"godoc", mixed}, {"chinese", chinese}} {
			b.Run(bm.name+"/"+text.name, func(b *testing.B) {
				bm.o.MaxChunks = -1
				c, err := New(&bm.o)
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(len(text.text)))
				b.ReportAllocs()
				n := 0
				for b.Loop() {
					for _, err := range c.Chunks(Document{Text: text.text}) {
						if err != nil {
							b.Fatal(err)
						}
						n++
					}
				}
				b.ReportMetric(float64(n)/float64(b.N), "chunks")
			})
		}
	}
}

func BenchmarkOffsets(b *testing.B) {
	for name, text := range map[string]string{"ascii": strings.Repeat("plain text ", 1<<16), "chinese": strings.Repeat("我们今天去公园", 1<<15)} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				NewOffsets(text).At(len(text))
			}
		})
	}
}

func BenchmarkSections(b *testing.B) {
	text := strings.Repeat("# Heading\n\nSome text, over\ntwo lines.\n\n```go\ncode()\n```\n", 1<<14)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		Sections(text)
	}
}
