"""Stop words: the frequent words of a language that say how a sentence is built and little of what it is about.

Articles, pronouns, prepositions, conjunctions, forms of to be and to have, and the commonest adverbs. Lists in
use elsewhere contain "not", "no" and "nor", and removing those turns "not good" into "good"; so here the words of
negation are a list of their own, and stay unless they are asked for. Removing stop words helps models that count
words (topics, search); it takes away what parsing, translation and generation are made of.

    >>> sorted(stop_words("en") & {"the", "on", "not", "cat"})
    ['on', 'the']
"""

from __future__ import annotations

from functools import cache
from typing import Literal

from seqloom.errors import ConfigError, suggest

_WORDS = {
    "en": """
        a an the this that these those such same other another each every either all any both some few more most
        much many several own
        i me my mine myself you your yours yourself yourselves he him his himself she her hers herself it its itself
        we us our ours ourselves they them their theirs themselves one ones who whom whose which what
        about above across after against along among around as at before behind below beneath beside between beyond
        by down during for from in inside into near of off on onto out over per since through throughout till to
        toward towards under until up upon via with within
        and but or so yet if because although though while whereas unless than whether
        am is are was were be been being have has had having do does did doing done will would shall should can could
        may might must ought
        again also else ever further here there hence how however just indeed now often once only perhaps quite
        rather still then therefore thus too very when whenever where wherever why
        i'm i've i'll i'd you're you've you'll you'd he's he'll he'd she's she'll she'd it's it'll it'd we're we've
        we'll we'd they're they've they'll they'd that's that'll there's here's what's who's where's how's let's""",
    "de": """
        der die das den dem des ein eine einen einem einer eines dieser diese dieses diesen diesem jener jene jenes
        jenen jenem jeder jede jedes jeden jedem alle allem allen aller alles beide beiden einige einigen einiger
        manche mancher manches viel viele vielen solche solcher solches andere anderen anderer anderes anderem
        ich du er sie es wir ihr mich dich sich uns euch mir dir ihm ihn ihnen mein meine meinen meinem meiner meines
        dein deine deinen deinem deiner sein seine seinen seinem seiner seines ihre ihren ihrem ihrer ihres unser
        unsere unseren unserem unserer euer eure euren man wer wen wem wessen was welche welcher welches welchen
        welchem
        ab am an auf aus außer bei beim bis durch für gegen gegenüber hinter im in ins mit nach neben seit über um
        unter vom von vor während wegen zu zum zur zwischen
        und oder aber denn sondern weil dass daß wenn als ob obwohl damit sobald solange sowie sowohl bevor nachdem
        falls indem je
        bin bist ist sind seid war warst waren wart gewesen sei wäre wären habe hast hat haben habt hatte hatten
        hätte hätten gehabt werde wirst wird werden werdet wurde wurden worden würde würden kann kannst können konnte
        konnten könnte könnten muss muß müssen musste mussten soll sollen sollte sollten will wollen wollte wollten
        darf dürfen durfte mag mögen möchte möchten
        auch da dabei dadurch dafür daher dann daran darauf daraus darin darüber darum davon dazu doch dort eben etwa
        etwas erst gar ganz hier hin immer jetzt mal mehr nun noch nur schon sehr so sonst also selbst wie wieder wo
        wohin woher warum weshalb wann wohl zwar bereits""",
    "fr": """
        le la les l un une des du de d au aux ce cet cette ces ceci cela ça c chaque tout toute tous toutes autre
        autres même mêmes quelque quelques plusieurs tel telle tels telles
        je j tu il elle on nous vous ils elles me m te t se s lui leur leurs moi toi soi eux y en mon ma mes ton ta
        tes son sa ses notre nos votre vos qui que qu quoi dont où lequel laquelle lesquels lesquelles quel quelle
        quels quelles
        à après avant avec chez contre dans depuis derrière dès devant durant entre envers hors jusque jusqu malgré
        par parmi pendant pour selon sous sur vers
        et ou mais donc or car si comme lorsque lorsqu puisque puisqu quand quoique afin ainsi
        suis es est sommes êtes sont étais était étions étiez étaient fus fut furent serai sera serons serez seront
        serais serait seraient sois soit soient été étant être ai as a avons avez ont avais avait avions aviez
        avaient eut eurent aurai aura auront aurais aurait auraient aie ait aient eu ayant avoir fait faire peut
        peuvent pouvait doit doivent
        alors assez aussi aujourd'hui autant beaucoup bien ci combien comment déjà encore enfin ensuite ici là
        maintenant moins parfois peu plus pourquoi presque puis souvent surtout tant tellement très trop voici voilà""",
    "es": """
        el la los las lo un una unos unas este esta esto estos estas ese esa eso esos esas aquel aquella aquello
        aquellos aquellas cada todo toda todos todas otro otra otros otras mismo misma mismos mismas algún alguno
        alguna algunos algunas mucho mucha muchos muchas poco poca pocos pocas tal tales varios varias
        yo tú él ella usted nosotros nosotras vosotros vosotras ellos ellas ustedes me te se nos os le les mí ti sí
        mi mis tu tus su sus mío mía tuyo tuya suyo suya nuestro nuestra nuestros nuestras vuestro vuestra vuestros
        vuestras que qué quien quién quienes cual cuál cuales cuyo cuya donde dónde
        a al ante bajo con contra de del desde durante en entre hacia hasta mediante para por según sobre tras
        y e o u pero mas sino si porque pues aunque como cuando mientras
        soy eres es somos sois son era eras éramos eran fui fue fuimos fueron seré será serán sería serían sea sean
        siendo sido ser estoy estás está estamos están estaba estaban estuvo estado estar he has ha hemos han había
        habían hube hubo habrá habría haya hayan habido haber hay tengo tiene tenemos tienen tenía tuvo tener puede
        pueden podía hacer hace
        ahí ahora allí antes aquí así aún bien casi cómo cuánto después entonces luego más menos muy siempre solo
        sólo también tan tanto ya""",
    "it": """
        il lo la i gli le l un uno una questo questa questi queste quel quello quella quelli quelle quei quegli ogni
        tutto tutta tutti tutte altro altra altri altre stesso stessa stessi stesse alcuni alcune qualche molto molta
        molti molte poco poca pochi poche tale tali
        io tu lui lei noi voi loro egli ella essi esse mi ti si ci vi me te sé ne li mio mia miei mie tuo tua tuoi
        tue suo sua suoi sue nostro nostra nostri nostre vostro vostra vostri vostre chi che cui quale quali cosa
        a ad al allo alla ai agli alle all con col coi contro da dal dallo dalla dai dagli dalle dall di del dello
        della dei degli delle dell dentro dopo durante fra tra in nel nello nella nei negli nelle nell per presso
        prima sopra sotto su sul sullo sulla sui sugli sulle sull verso
        e ed o od ma però se perché poiché benché mentre quando come dunque quindi oppure
        sono sei è siamo siete ero eri era eravamo erano fui fu furono sarò sarà saranno sarebbe sarebbero sia siano
        fosse fossero stato stata stati state essendo essere ho hai ha abbiamo avete hanno avevo aveva avevano ebbe
        avrò avrà avranno avrebbe abbia abbiano avuto avendo avere sto sta stanno stava può possono deve devono fare
        fa
        allora anche ancora adesso assai bene così dove già là lì meno ora più poi proprio quanto quasi qui qua
        sempre solo spesso tanto troppo""",
    "pt": """
        o a os as um uma uns umas este esta isto estes estas esse essa isso esses essas aquele aquela aquilo aqueles
        aquelas cada todo toda todos todas outro outra outros outras mesmo mesma mesmos mesmas algum alguma alguns
        algumas muito muita muitos muitas pouco pouca poucos poucas tal tais vários várias
        eu tu ele ela você nós vós eles elas vocês me te se nos vos lhe lhes mim ti si meu minha meus minhas teu tua
        teus tuas seu sua seus suas nosso nossa nossos nossas que quem qual quais cujo cuja onde
        ao aos à às ante após até com contra de do da dos das desde durante em no na nas num numa entre para
        perante por pelo pela pelos pelas sob sobre dele dela deles delas
        e ou mas porém porque pois embora como quando enquanto portanto
        sou és é somos são era eras éramos eram fui foi fomos foram serei será serão seria seriam seja sejam sendo
        sido ser estou está estamos estão estava estavam esteve estado estar tenho tem temos têm tinha tinham teve
        ter há havia houve haver pode podem podia fazer faz vai vão
        agora ainda aí ali aqui assim bem já lá logo mais menos quanto quase sempre só somente também tanto tão
        depois antes então""",
    "nl": """
        de het een deze dit die dat elke elk ieder iedere alle alles ander andere enkele sommige veel vele weinig
        zelf zulke zo'n
        ik jij je u hij zij ze wij we jullie mij me jou hem haar ons hen hun mijn jouw uw zijn onze zich wie wat
        welke welk er men
        aan achter af bij binnen boven buiten door in met na naar naast om onder op over per rond te ten ter
        tegen tijdens tot tussen uit van vanaf via voor voorbij
        en of maar want dus als dan omdat doordat hoewel terwijl toen wanneer indien zodat sinds totdat
        ben bent is was waren geweest heb hebt heeft hebben had hadden gehad word wordt worden werd werden geworden
        zal zullen zou zouden kan kunnen kon konden moet moeten moest moesten mag mogen wil willen wilde doen doet
        deed gaan gaat ging
        al alleen ook daar daarna daarom echter eens eerst enkel erg even gewoon hier hoe iets juist
        meer meest nog nu pas reeds ruim slechts steeds toch vaak verder waar waarom weer wel zeer zo""",
    "sv": """
        en ett den det de denna detta dessa varje all alla allt annan annat andra samma någon något några många mycket
        få sådan sådant sådana själv
        jag du han hon vi ni dem dig mig sig oss er honom henne min mitt mina din ditt dina sin sitt sina hans hennes
        dess deras vår vårt våra ert era man vem vad vilken vilket vilka som
        av bakom bland efter emot enligt för före från framför genom hos i inom innan kring med mellan mot om omkring
        på sedan till under ur utanför vid via åt över
        och eller men samt att eftersom fast medan när då därför ifall än
        är var varit vara bli blir blev blivit har hade haft ha kan kunde ska skall skulle vill ville måste får fick
        gör gjorde göra
        alltid bara där dit även här hit hur igen ju just kanske lite mer mest nu ofta också redan så sen
        snart varför vart väl ändå""",
    "da": """
        en et den det de denne dette disse hver hvert alle alt al anden andet andre samme nogen noget nogle mange
        meget få sådan sådant sådanne selv
        jeg du han hun vi i dem dig mig sig os jer ham hende min mit mine din dit dine sin sit sine hans hendes dens
        dets deres vor vort vores jeres man hvem hvad hvilken hvilket hvilke som der
        af bag blandt efter for foran fra før gennem hos inden med mellem mod om omkring over på siden til under
        ud ved via ad op ned
        og eller men samt at da fordi hvis når mens skønt end
        er var været være bliver blev blevet blive har havde haft have kan kunne skal skulle vil ville må måtte får
        fik gør gjorde gøre
        altid bare dog her hen hvor hvordan hvorfor hvornår igen jo kun lidt mere mest nu ofte også allerede så
        snart vel endnu""",
    "nb": """
        en ei et den det de denne dette disse hver hvert alle alt annen annet andre samme noen noe mange mye få slik
        slikt slike selv
        jeg du han hun vi dere dem deg meg seg oss ham henne min mitt mine din ditt dine sin sitt sine hans hennes
        dens dets deres vår vårt våre man hvem hva hvilken hvilket hvilke som
        av bak blant etter for foran fra før gjennom hos i innen med mellom mot om omkring over på siden til under
        ut ved via opp ned
        og eller men samt at da fordi hvis når mens enn
        er var vært være blir ble blitt bli har hadde hatt ha kan kunne skal skulle vil ville må måtte får fikk gjør
        gjorde gjøre
        alltid bare der dit her hit hvor hvordan hvorfor igjen jo kun litt mer mest nå ofte også allerede så snart
        vel ennå""",
    "ru": """
        этот эта это эти этого этой этих этом этому этим тот та те того той тех том тому тем такой такая такое такие
        каждый каждая весь вся всё все всего всех всем всей сам сама само сами другой другая другие один одна одно
        некоторые многие
        я ты он она оно мы вы они меня мне мной тебя тебе тобой его ему им нём него нему ним её ей ею неё ней нас нам
        нами вас вам вами их ими них себя себе собой мой моя моё мои моего моей моих твой твоя твоё твои свой своя
        своё свои своего своей своих наш наша наше наши ваш ваша ваше ваши кто кого кому кем что чего чему чем чей
        чья какой какая какое какие который которая которое которые которого которой которых
        в во на с со к ко у о об обо от до из изо за по под подо над надо перед при про для через между среди около
        после
        и а но или либо да если чтобы потому поэтому так как когда пока хотя будто ли же бы б ведь раз
        был была было были быть буду будет будем будете будут есть может могут мог могла можно нужно
        вот вон где здесь там тут туда сюда откуда зачем почему сколько уже ещё еще лишь только даже также тоже очень
        более больше менее потом теперь тогда сейчас всегда иногда опять снова вдруг почти совсем именно разве""",
}

_NEGATION = {
    "en": """no not nor never none nobody nothing nowhere neither cannot without hardly scarcely
        ain't aren't can't couldn't daren't didn't doesn't don't hadn't hasn't haven't isn't mayn't mightn't mustn't
        needn't oughtn't shan't shouldn't wasn't weren't won't wouldn't""",
    "de": "nicht nichts nie niemals niemand niemanden niemandem nirgends kein keine keinen keinem keiner keines weder "
          "ohne nein kaum",
    "fr": "ne n pas non ni jamais rien aucun aucune aucuns aucunes nul nulle personne guère sans point",
    "es": "no ni nunca jamás nada nadie ningún ninguno ninguna ningunos ningunas tampoco sin apenas",
    "it": "non no né mai nulla niente nessun nessuno nessuna neanche nemmeno neppure senza",
    "pt": "não nem nunca jamais nada ninguém nenhum nenhuma nenhuns nenhumas tampouco sem",
    "nl": "niet niets nooit niemand nergens geen noch nee zonder nauwelijks",
    "sv": "inte ej icke aldrig ingen inget inga ingenting varken nej utan knappt",
    "da": "ikke ej aldrig ingen intet ingenting hverken nej uden næppe",
    "nb": "ikke aldri ingen intet ingenting verken nei uten neppe",
    "ru": "не ни нет никогда никто никого никому ничто ничего ничему нигде никуда никакой никакая никакие без нельзя",
}

LANGUAGES = tuple(_WORDS)


@cache
def stop_words(language: str = "en", *, negation: Literal["keep", "remove"] = "keep") -> frozenset[str]:
    """The stop words of a language, lower case, apostrophes straight; with `negation="remove"` also no, not, never.

    >>> len(stop_words("en"))
    215
    """
    if language not in _WORDS:
        raise ConfigError(f"no stop words for the language {language!r}{suggest(language, LANGUAGES)}; "
                          f"there are lists for {', '.join(LANGUAGES)}")
    words, negations = set(_WORDS[language].split()), set(_NEGATION[language].split())
    return frozenset(words | negations if negation == "remove" else words - negations)


def negation_words(language: str = "en") -> frozenset[str]:
    """The words of a language that turn a statement round."""
    return stop_words(language, negation="remove") - stop_words(language)
