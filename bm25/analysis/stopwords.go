package analysis

// Stop words: articles, pronouns, prepositions, conjunctions, auxiliaries and
// question words, lower case, separated by space. They are indexed like any
// other word; only queries leave them out.
const (
	// Words of place, time and degree (up, under, before, more, very) are left
	// out of this list: queries on scientific text mean them.
	stopEnglish = `a am an and are as at be been being but by can cannot could couldn did didn do does doesn doing don for
		had hadn has hasn have haven having he her hers herself him himself his how i if in into is isn it its itself
		ll me my myself no not of on or our ours ourselves re s she should shouldn such t than that the their theirs them
		themselves then there these they this those to us ve was wasn we were weren what when where which who whom whose
		why will with would wouldn you your yours yourself yourselves d m`

	stopArabic = `في من على إلى الى عن مع هذا هذه ذلك تلك هو هي هم هن أنا أنت نحن التي الذي الذين اللذان ما ماذا لماذا متى
		أين اين كيف كم هل أي اي أية و أو او ثم لا لم لن ليس ليست كان كانت كانوا يكون تكون قد لقد إن ان أن إذا اذا لكن بل
		حتى كل بعض غير بين بعد قبل عند عندما منذ خلال حول تحت فوق أمام كما لأن به بها له لها لهم فيه فيها منه منها عليه
		عليها إليه إليها هناك هنا أيضا ايضا فقط`

	stopDanish = `af alle alt anden andet at blev blive bliver da de dem den denne der deres det dette dig din disse
		dog du efter eller en end er et for fra få ham han hans har have hende hendes her hos hun hvad hvem hvilke
		hvilken hvilket hvis hvor hvordan hvorfor hvornår i ikke ind jeg jer jeres jo kan kunne man mange med meget
		men mig min mine mit mod ned noget nogle nogen nu når og også om op os over på selv sig sin sine sit skal
		skulle som sådan thi til ud under var vi vil ville vor være været`

	stopDutch = `aan al alle als altijd andere ben bij daar dan dat de der deze die dit doch doen door dus een en er
		ge geen had heb hebben heeft hem het hier hij hoe hoeveel hun ik in is ja je jij jou jouw jullie kan kon kunnen
		maar me meer men met mij mijn moet na naar niet niets nog nu of om omdat ons ook op over reeds te tegen toch
		toen tot u uit uw van veel voor waar waarom wanneer want waren was wat we wel welk welke werd wezen wie wij
		wil worden wordt zal ze zelf zich zij zijn zo zonder zou`

	stopFinnish = `ei eivät emme en et ette että he heidän heille heitä hän hänen hänet häntä ja jo jos joka jossa jotka
		joita kanssa keiden kenen ketkä koska kuin kuinka kuka kun me meidän mihin mikä miksi milloin mistä missä mitkä
		mitä mukaan mutta myös ne niiden niin niitä noin nuo nyt näiden nämä näitä ole olen olet olemme olette oli olivat
		olisi olla on ovat se sekä sen siihen siinä siitä sinä sinun sitä tai te tämä tämän tässä tästä tätä tuo vaan vai
		vaikka ja minä minun minua`

	stopFrench = `a ai aie aient aies ait alors as au aucun aucune aura aurait auront aussi autre autres aux avaient avait
		avant avec avez avoir avons ayant c ce ceci cela celle celles celui ces cet cette ceux chaque ci comme comment
		combien d dans de depuis des donc dont du elle elles en entre es est et étaient étais était étant été êtes être eu
		eux eut fait faire fut furent hors il ils j je jusqu l la laquelle le lequel les lesquelles lesquels leur leurs
		lors lui m ma mais me même mêmes mes moi mon n ne ni nos notre nous on ont or ou où par parce pas pendant peu peut
		plus pour pourquoi qu quand que quel quelle quelles quels qui quoi s sa sans se sera serait seront ses si sien son
		sont sous sur t ta te tes toi ton tous tout toute toutes très tu un une vers vos votre vous y à ça là`

	elisionsFrench = `l d j m t s n c qu jusqu lorsqu puisqu quoiqu`

	stopGerman = `ab aber alle allem allen aller alles als also am an andere anderem anderen anderer anderes auch auf aus bei
		beim bin bis bist da damals damit dann das dass daß dein deine deinem deinen deiner dem den denen denn der deren
		des dessen dich die dies diese diesem diesen dieser dieses dir doch dort du durch ein eine einem einen einer eines
		er es etwas euch euer eure für gegen gewesen hab habe haben hat hatte hatten hier hin hinter ich ihm ihn ihnen ihr
		ihre ihrem ihren ihrer ihres im in indem ins ist ja jede jedem jeden jeder jedes jene jenem jenen jener jenes jetzt
		kann kein keine keinem keinen keiner können könnte man manche mehr mein meine meinem meinen meiner mich mir mit
		muss nach nicht nichts noch nun nur ob oder ohne sehr sein seine seinem seinen seiner seines seit selbst sich sie
		sind so solche soll sollte sondern sonst über um und uns unser unsere unter viel viele vom von vor wann war waren
		warum was weg weil welche welchem welchen welcher welches wem wen wenn wer werde werden wessen wie wieder will wir
		wird wo wofür wollen worden wurde wurden während zu zum zur zwar zwischen`

	stopHungarian = `a abban ahhoz ahogy aki akik akkor alatt amely amelyek ami amikor amit amíg annak arra arról az azok azon
		azt aztán azért be csak de e egy egyes egyik el ezt ennek erre ez ezek ezen fel hány hogy hogyan hol honnan ha
		hanem hiszen hozzá ide igen ill itt is jól ki kicsoda kik kinek kell kellett közben között le legyen lehet lesz lett
		ma már még meg mellett mely melyik mert mi miatt mikor milyen mennyi miért mind minden mit mint mivel most nagyon
		nem nekem neki nincs ott ő ők őket össze pedig s se sem során szerint számára tehát úgy új után utána és és vagy
		van vannak volt voltak vissza viszont által`

	stopIrish = `a ach ag agus an aon ar arna as ba cad cá cé céard conas den do don dá faoi féin go i iad idir in is le leis
		mar mo mé na nach ní níor nó nuair ó ón os sa san seo sin sé sí sinn sibh siad sna tar trí tá tú um bhí bhfuil atá`

	stopItalian = `a abbia abbiamo ad agli ai al alla alle allo anche avere aveva avevano avuto c che chi ci coi col come con
		contro cosa cui da dagli dai dal dalla dalle dallo degli dei del della delle dello di dopo dove due e è ed era erano
		essere fa fino fra fu furono gli ha hai hanno ho i il in io l la le lei li lo loro lui ma me mentre mi mia mie miei
		mio ne negli nei nel nella nelle nello no noi non nostra nostro o ogni per perché più poi prima qual quale quali
		quando quanta quante quanti quanto quella quelle quelli quello questa queste questi questo qui se sei senza si sia
		siamo siano sono sotto sta stata state stati stato su sua sue sugli sui sul sulla sulle sullo suo suoi te ti tra tu
		tua tue tuo tuoi tutti tutto un una uno vi voi`

	elisionsItalian = `l d un c s m t v n all dall dell nell sull quell quest coll dov com anch`

	stopNorwegian = `alle andre at av bare begge ble blei bli blir både da de deg dei deim dem den denne der dere deres det dette
		di din disse du dykk eg ein eit ei eller elles en enn er et ett etter for fordi fra før ha hadde han hans har hennar
		henne hennes her hjå ho hun hva hvem hver hvilke hvilken hvis hvor hvordan hvorfor hvornår i ikke ikkje inn ja jeg kan
		kom korleis korso kun kunne kva kvar kven kvifor man mange me med medan meg men mi min mine mitt mot mykje mye ned no
		noe noen noko nokon nå når og også om opp oss over på samme seg selv si sia sidan siden sin sine sitt skal skulle slik
		so som sånn så til um under upp ut uten var vart ved vere vi vil ville vore vår være vært å`

	stopPortuguese = `a à ao aos aquela aquelas aquele aqueles aquilo as às até com como da das de dela delas dele deles depois
		do dos e é ela elas ele eles em entre era eram essa essas esse esses esta está estão estas estava estavam este estes
		eu foi foram for fosse há isso isto já la lhe lhes lo mais mas me mesmo meu meus minha minhas muito na não nas nem
		no nos nós nossa nossas nosso nossos num numa o onde os ou para pela pelas pelo pelos por porque qual quais quando
		quanto quantos quantas que quê quem se sem ser será seu seus só sua suas são também te tem têm ter teu tinha tinham
		toda todas todo todos tu tua um uma umas uns você vocês vos`

	stopRomanian = `a acea aceasta această aceea acei aceia acel acela acele acelea acest acesta aceste acestea acestei acestor
		acestui acești aceștia acolo ai aia al ale alt alta alte altul am anume apoi ar are as asta au avea avem aveți avut
		aș ați ca că când cand care căreia cărei cărora cărui căruia cât câte câți cat cate ce cel cele celei celor celui cei
		ceva chiar ci cine cineva conform cu cui cum cât da dacă dar de deci decât deja deoarece departe despre deși din dintr
		dintre doar după ea ei el ele era erau este eu există face fără fi fie fiecare fiind fost I iar ii il îi îl îmi în
		în într între înainte în la le li lor lui mai mult mea mei mele meu mi mie mine mod mulți ne nici nimic niște noi
		nostru nu o ori pe pentru peste pot prea prin putea sa să sale sau se si și sub sunt spre său săi ta te ti toate
		tot toți totuși tu un una unde unei unele unor unui unul va vă voi vor vostru`

	stopRussian = `а без более больше будет будто бы был была были было быть в вам вас весь во вот все всего всех вы где да даже
		для до его ее ей ему если есть еще ж же за здесь и из или им их к как какая какие какой каком когда кого кому кто ли
		лишь между меня мне много может можно мой моя мы на над надо наш не него нее ней нет ни нибудь них но ну о об однако
		он она они оно от очень по под после потом потому почему при про раз с сам свой своего своей своих себе себя сейчас
		сколько со так также такая такие такой там тебя тем теперь то тогда того тоже той только том тот ту ты у уж уже хотя
		чего чей чем через что чтобы чуть чьи чья эта эти этим этих это этого этой этом этот эту я является`

	stopSpanish = `a adónde al algo algunas alguno algunos ante antes aquel aquella como cómo con contra cual cuál cuáles cuales
		cuando cuándo cuánto cuánta cuántos cuántas de del desde donde dónde durante e el él ella ellas ellos en entre era
		eran eras es esa esas ese eso esos está estaba estaban están estar estas esta este esto estos fue fueron ha había
		habían haber han has hasta hay he la las le les lo los más me mi mí mis mucho muchos muy nada ni no nos nosotros
		nuestra nuestro o os otra otras otro otros para pero poco por porque qué que quien quién quienes quiénes se sea ser
		si sí sido sin sobre son soy su sus también tanto te tenía tiene tienen todo todos tu tú tus un una unas uno unos y
		ya yo`

	stopSwedish = `alla allt att av blev bli blir blivit de dem den denna deras dess dessa det detta dig din dina ditt du där då
		efter ej eller en er era ert ett från för ha hade han hans har henne hennes hon honom hur här i icke ingen inom inte
		jag ju kan kunde man med mellan men mig min mina mitt mot mycket ni nu när någon något några och om oss på samma sedan
		sig sin sina sitta själv skulle som så sådan till under upp ut utan vad var varför varit varje vart vem vems vi vid
		vilka vilkas vilken vilket vår våra vårt än är åt över`

	stopTamil = `ஒரு என்று மற்றும் இந்த இது என்ற கொண்டு என்பது பல ஆகும் அல்லது அவர் நான் உள்ள அந்த இவர் என முதல் என்ன இருந்து
		சில என் போன்ற வேண்டும் வந்து இதன் அது அவன் தான் பலரும் என்னும் மேலும் பின்னர் கொண்ட இருக்கும் தனது உள்ளது போது
		என்றும் அதன் தன் பிறகு அவர்கள் வரை அவள் நீ ஆகிய இருந்தது உள்ளன வந்த இருந்த மிகவும் இங்கு மீது ஓர் இவை இந்தக் பற்றி
		வரும் வேறு இரு இதில் போல் இப்போது எந்த எப்படி எங்கே யார் ஏன் எப்போது`

	stopTurkish = `acaba ama ancak arasında artık aslında az bana bazı belki ben beni benim beri bile bir biri birkaç birçok biz bize
		bizi bizim böyle bu buna bunda bundan bunlar bunları bunların bunu bunun burada çok çünkü da daha dahi de defa değil
		diğer diye dolayı dolayısıyla eden eder edilen en gibi göre hangi hangisi hatta hem henüz hep hepsi her herhangi hiç hiçbir
		için ile ilgili ise işte itibaren ka kadar karşın kendi kendini kez ki kim kime kimi kimin mı mi mu mü nasıl ne neden
		nedenle nedir nerede nereye neye niçin niye o olan olarak oldu olduğu olmak olması olur ona ondan onlar onları onların
		onu onun oysa pek rağmen sadece sanki sen seni senin siz size sizi sizin sonra şey şu şunu tarafından tüm üzere var ve
		veya ya yani yapılan yerine yine yoksa zaten kaç`

	// Chinese, Japanese and Korean are indexed as characters and pairs, so these are such.
	stopChinese = `的 了 是 在 和 与 與 及 或 也 就 都 而 被 把 这 這 那 其 之 于 於 以 为 為 对 對 从 從 向 将 將 由 吗 嗎 呢 吧 啊 们 個 个
		什么 什麼 哪些 哪个 哪個 哪种 哪種 哪里 哪裡 哪一 多少 怎么 怎麼 怎样 怎樣 如何 为什 為什 为何 為何 谁的 誰的 谁是 誰是 何时 何時
		是什 么是 麼是 是谁 是誰 是哪 的是 是的 了什 的什 我们 我們 你们 你們 他们 他們 它们 它們 这个 這個 那个 那個 这些 這些 那些
		一个 一個 以及 或者 因为 因為 所以 如果 但是 可以 关于 關於`

	stopJapanese = `の に は を が と で も へ や か な こと もの これ それ あれ この その あの ここ そこ ため よう など から まで より ので
		のは のが のを のに とは には では とし して した する され れた れる てい いる いた です ます した ある あっ った って という いう
		でき きる なる なっ った ました ませ せん ない なく また ただ だっ たの ての 何で のか すか ですか 何と 何が 何の どの どこ だれ 誰が 誰の
		どん んな なぜ いつ いく くつ つか`

	stopVietnamese = `ai anh ấy bao bị bởi các cái cho chỉ chưa có còn của cùng cũng đã đang để đến đều đi đó được gì hay hoặc hơn khi
		không là lại lên mà mỗi một này nào nên nếu như nhiều những nó ở ông qua ra rằng rất rồi sau sẽ sự tại theo thì trên trong
		trước từ và vào vẫn vậy về vì với vừa bằng đâu sao thế nhất`

	stopGreek = `ο η το οι τα του της των τον την τη τους τις στο στη στην στον στους στις στα ένας μια μία ένα και κι ή ούτε αλλά όμως
		αν εάν όταν όπως ώστε γιατί επειδή διότι που πού πως πώς ότι πότε ποιος ποια ποιο ποιοι ποιες ποιον ποια ποιους πόσο πόσα πόσες
		πόσοι τι από με σε για προς κατά μετά μεταξύ χωρίς ως έως να θα δεν μη μην είναι ήταν είχε είχαν έχει έχουν έχω αυτό αυτός αυτή
		αυτοί αυτές αυτά αυτών αυτού αυτής εκείνος εκείνη εκείνο μου σου μας σας εγώ εσύ εμείς εσείς όλα όλοι κάθε πιο πολύ επίσης δηλαδή`

	stopHindi = `का की के को में से पर और या है हैं था थी थे हो होता होती होते हुआ हुई हुए कि जो यह ये वह वे इस उस इन उन इसके उसके इसकी उसकी
		इसका उसका इनके उनके उनकी उनका ने भी तो ही तक लिए साथ बाद पहले कर करने करता करते करती किया गया गई गए जा जाता जाती जाते रहा रही रहे
		एक अपने अपनी अपना द्वारा नहीं न क्या कौन कौनसा कहाँ कहां कब कैसे क्यों कितना कितने कितनी किस किसने किसी किन कुछ सब यदि जब तब जैसे लेकिन मैं हम
		आप तुम सकता सकते सकती दिया था।`
)
