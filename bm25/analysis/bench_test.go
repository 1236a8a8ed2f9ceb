package analysis

import (
	"go/build"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// prose is English text from the Go distribution: documentation and comments.
func prose(t testing.TB) string {
	var b strings.Builder
	files, _ := filepath.Glob(filepath.Join(build.Default.GOROOT, "src", "*", "doc.go"))
	more, _ := filepath.Glob(filepath.Join(build.Default.GOROOT, "src", "net", "http", "*.go"))
	for _, f := range append(files, more...) {
		data, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(data)) {
			if strings.HasPrefix(line, "//") && len(line) > 30 {
				b.WriteString(line[2:])
			}
		}
		if b.Len() > 1<<20 {
			break
		}
	}
	if b.Len() == 0 {
		t.Skip("GOROOT has no sources here")
	}
	return b.String()
}

func benchmarkTokens(b *testing.B, name, text string) {
	a := mustNew(b, name)
	var s Scratch
	n := 0
	emit := func(tok *Token) { n += len(tok.Term) }
	a.Tokens(&s, text, emit)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		a.Tokens(&s, text, emit)
	}
}

func BenchmarkStandard(b *testing.B) { benchmarkTokens(b, "standard", prose(b)) }
func BenchmarkEnglish(b *testing.B)  { benchmarkTokens(b, "english", prose(b)) }
func BenchmarkCode(b *testing.B)     { benchmarkTokens(b, "code", prose(b)) }

func BenchmarkScripts(b *testing.B) {
	for _, c := range []struct{ name, analyzer, text string }{
		{"french", "french", strings.Repeat("L’été dernier, les élèves étaient allés à la plage où l'eau était très chaude. ", 200)},
		{"russian", "russian", strings.Repeat("Быстрая коричневая лиса прыгает через ленивую собаку и убегает в лес. ", 200)},
		{"chinese", "standard", strings.Repeat("快速的棕色狐狸跳过了懒狗，然后跑进了森林。", 200)},
		{"thai", "standard", strings.Repeat("สุนัขจิ้งจอกสีน้ำตาลกระโดดข้ามสุนัขขี้เกียจ ", 200)},
	} {
		b.Run(c.name, func(b *testing.B) { benchmarkTokens(b, c.analyzer, c.text) })
	}
}
