package research

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// Classification is local: what is asked for, in the words that can be searched
// for alone.
func TestS3_7Classify(t *testing.T) {
	for question, want := range map[string][]string{
		// Several questions.
		"What is RRF? How is it normalized?":                            {"What is RRF", "How is it normalized RRF"},
		"How do I back up a base and how do I restore it?":              {"How do I back up a base", "how do I restore it base"},
		"Who may publish a space, what happens to old generations?":     {"Who may publish a space", "what happens to old generations"},
		"1. What is a space\n2. How is it published\n3. Who may use it": {"What is a space", "How is it published space", "Who may use it space"},
		"- How do I install quarry\n- how do I remove the program":      {"How do I install quarry", "how do I remove the program"},
		"¿Cómo instalo el servidor y cómo lo actualizo?":                {"Cómo instalo el servidor", "cómo lo actualizo servidor"},
		"Wie installiere ich den Server und wie sichere ich Dateien":    {"Wie installiere ich den Server", "wie sichere ich Dateien"},
		"Как установить сервер и как обновить базу данных?":             {"Как установить сервер", "как обновить базу данных"},
		"ما هو الفهرس؟ كيف يعمل المحرك؟":                                {"ما هو الفهرس", "كيف يعمل المحرك"},
		"什么是工作流？如何发布？":                                                  {"什么是工作流", "如何发布 工作流"},
		"如何备份知识库，怎么恢复？":                                                 {"如何备份知识库", "怎么恢复 备份知识库"},
		"バックアップはどう作成し、どう復元しますか":                                         {"バックアップはどう作成し", "どう復元しますか バックアップ"},
		// Joined things.
		"How do I configure single sign-on and audit logging?": {"How do I configure single sign-on", "How do I configure audit logging"},
		"Who approves expense reports and travel requests":     {"Who approves expense reports", "Who approves travel requests"},
		"全文检索以及向量检索如何配置":                                       {"全文检索", "向量检索如何配置"},
		"インストール方法および削除方法を教えてください":                              {"インストール方法", "削除方法を教えてください"},
		// Comparisons.
		"What is the difference between cats and dogs in cold climates?": {"cats in cold climates", "dogs in cold climates"},
		"Compare HNSW with IVF for filtered search":                      {"HNSW for filtered search", "IVF for filtered search"},
		"PostgreSQL vs. MySQL":                                           {"PostgreSQL", "MySQL"},
		"Was ist der Unterschied zwischen Entwurf und Veröffentlichung?": {"Entwurf", "Veröffentlichung"},
		"知识库和空间的区别是什么？":                                                  {"知识库", "空间"},
		"比较HNSW与IVF":                                                     {"HNSW", "IVF"},
		"ワークフローと知識ベースの違いは何ですか":                                           {"ワークフロー", "知識ベース"},
		// One by one, and enumerations.
		"工作流节点和知识库分别怎么创建？":                                  {"工作流节点 怎么创建", "知识库 怎么创建"},
		"検索ノードとエージェントノードはそれぞれ何をしますか":                        {"検索ノード 何をしますか", "エージェントノード 何をしますか"},
		"Does quarry support PDF, DOCX and HTML in tables?": {"Does quarry support PDF in tables", "Does quarry support DOCX in tables", "Does quarry support HTML in tables"},
		"支持导入PDF、Word和Excel吗":                               {"支持导入 PDF", "支持导入 Word", "支持导入 Excel吗"},
	} {
		q := Classify("  " + question + "\n")
		if !q.Complex || !slices.Equal(q.Clauses, want) || q.Text != question {
			t.Errorf("%s\ngot  %q\nwant %q", question, q.Clauses, want)
		}
	}
	for _, question := range []string{
		"What is the retention policy of audit logs?",
		"terms and conditions of service",
		"How to create and delete a base",
		"When I import a file, what happens?",
		"If the disk is full and nothing can be written, what does the writer do?",
		"I have a base with 3.5 million chunks. How do I back it up?",
		"API for apps, covering chat messages, files, voice and feedback",
		"Is it A or B", "C#", "???", "a", "和平与发展是什么", "如何参与社区", "東京と言う町", "知识库", "-", "(b)",
	} {
		if q := Classify(question); q.Complex || !slices.Equal(q.Clauses, []string{question}) {
			t.Errorf("%s: %q", question, q.Clauses)
		}
	}
	if q := Classify(" \t"); q.Text != "" || q.Complex || q.Clauses != nil {
		t.Errorf("blank: %+v", q)
	}
}

// A clause that says nothing new is none, and MaxClauses holds.
func TestClassifyBounds(t *testing.T) {
	if q := Classify("What is it? what is it?"); q.Complex {
		t.Errorf("%q", q.Clauses)
	}
	q := Classify(strings.Repeat("What is alpha beta? And which gamma delta; ", 1) + strings.Repeat("Why x? Why y? Where z? ", 40) + "Why the last one?")
	if len(q.Clauses) > MaxClauses {
		t.Errorf("%d clauses", len(q.Clauses))
	}
	var b strings.Builder
	for i := range 100 {
		b.WriteString("Why " + strings.Repeat("z", i+1) + "? ")
	}
	if q := Classify(b.String()); len(q.Clauses) != MaxClauses || !strings.Contains(q.Clauses[MaxClauses-1], strings.Repeat("z", 100)) {
		t.Errorf("%d clauses", len(q.Clauses))
	}
}

func FuzzClassify(f *testing.F) {
	for _, s := range []string{twofold, "A, B and C?", "A和B的区别", "、と、それぞれ", "compare with", "between and", "1. a\n2. b", "vs", "(一、", "?；。", "\xff and how \xfe", "分别", "a, b, and", "and and and",
		strings.Repeat("和", 300), strings.Repeat("a and b ", 100), "什么、什么、和", "①②?", "e.g. x. y! z"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		q := Classify(s)
		if !reflect.DeepEqual(q, Classify(s)) {
			t.Fatal("twice gives something else")
		}
		if (q.Text == "") != (len(q.Clauses) == 0) || q.Complex != (len(q.Clauses) > 1) || len(q.Clauses) > MaxClauses || !utf8.ValidString(q.Text) {
			t.Fatalf("%+v", q)
		}
		for _, c := range q.Clauses {
			if strings.TrimSpace(c) == "" || !utf8.ValidString(c) || len(c) > 3*len(q.Text)+MaxClauses {
				t.Fatalf("clause %q of %q", c, q.Text)
			}
		}
		if p := (Offline{}).plan(q); len(p) > MaxQueries {
			t.Fatalf("plan %q", p)
		}
	})
}

func BenchmarkClassify(b *testing.B) {
	long := strings.Repeat("何と和、and how, 、", 1000)
	for _, s := range []string{direct, twofold, "ワークフローと知識ベースの違いは何ですか", long} {
		b.Run("", func(b *testing.B) {
			b.SetBytes(int64(len(s)))
			for b.Loop() {
				Classify(s)
			}
		})
	}
}
