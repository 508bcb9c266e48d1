//! Sample replies: per story one reply for each hidden intention, all about that story.

use rlver::dialogue::{HiddenIntention, Language};

/// A story and one reply per intention, in the order of [`HiddenIntention::ALL`].
pub(crate) struct Story {
    pub(crate) language: Language,
    pub(crate) first: &'static str,
    pub(crate) replies: [&'static str; 8],
}

impl Story {
    pub(crate) fn reply(&self, intention: HiddenIntention) -> &'static str {
        self.replies[intention as usize]
    }
}

pub(crate) const STORIES: [Story; 8] = [
    Story {
        language: Language::Zh,
        first: "奶奶住院三个月，夜里都是我守着，妹妹一次没来，昨天还嫌我照顾得不好。",
        replies: [
            "你守了三个月的夜，心里有气很有道理；妹妹隔得远，看不到病房里的辛苦，她也有她的难处。两边都没把话说开，才会变成一句嫌弃。",
            "你可以今晚先把奶奶住院的排班列成一张表，再约妹妹视频一次，直接问她周末能守哪一晚，请护工的钱两个人对半出。",
            "妹妹一次没来，可能是她怕看到奶奶躺在病床上的样子；嫌你照顾得不好，多半是她心里有愧，只好先挑毛病。",
            "守夜的这三个月里，你有没有想过，是什么让你一直没有开口叫妹妹来换班？你最怕的是什么？",
            "三个月的夜，一晚一晚守在奶奶床边，这不是谁都能做到的。你把奶奶照顾得很好，我真佩服你。",
            "妹妹那句话你憋了一天了吧。在我这儿不用忍，守夜的苦、病房里的气，全倒出来，我在听，你慢慢说。",
            "熬了三个月的夜，换来一句嫌弃，你心里一定又委屈又心寒。奶奶床边只有你一个人的那些晚上，该有多孤单。",
            "这真的不怪你。守夜的是你，一次没来的是妹妹，她没资格嫌你照顾得不好，该反省的是她。",
        ],
    },
    Story {
        language: Language::Zh,
        first: "我带的实习生把报价单发错了客户，经理开会时当众骂的却是我。",
        replies: [
            "客观地说，报价单发错，实习生粗心，复核的环节也缺了一步；经理要对客户交代，这是他的道理，可是当众骂人不妥。两边都有做得不够的地方。",
            "建议你先写一封邮件，把报价单更正发给客户，再跟经理约十分钟，提出以后报价单要两个人复核才能发。",
            "经理当众发火，可能是客户那边刚给了他压力，他怕丢了这单生意；骂你而不骂实习生，也许是他觉得你扛得住。",
            "回头看报价单这件事，你觉得自己带实习生时，哪一步是可以不一样的？下次再遇到，你会怎么做？",
            "被经理当众骂，你没有把实习生推出去挡，这份担当很难得。你处理得真漂亮，不是每个人都能做到。",
            "被当众骂那一口气憋着多难受，想骂经理就骂，在我这儿尽管说，报价单的事从头说，我听着。",
            "错的是报价单，挨骂的却是你，那么多人看着，你当时一定又难堪又委屈，回到座位上心都是凉的。",
            "报价单又不是你发的，这件事错不在你。经理不分青红皂白当众骂人，是他做得过分，你没有做错什么。",
        ],
    },
    Story {
        language: Language::Zh,
        first: "室友半夜打游戏开外放，我提醒了他四次，他反而把我踢出了宿舍群。",
        replies: [
            "一方面你半夜要睡觉，提醒他四次完全在理；另一方面室友可能觉得被当面说没面子。踢出宿舍群是他过了，不过四次都在半夜气头上说，效果也难好，两边都有可以改的。",
            "可以先找个白天跟室友当面谈，约定晚上十二点以后戴耳机；他还是外放的话，第二步就找宿管申请换宿舍。",
            "室友把你踢出宿舍群，多半是他觉得当着大家的面被说了四次很丢脸，打游戏又是他唯一放松的时候，他才用这种办法扳回一点面子。",
            "四次提醒里，你当时心里想要的是什么？被踢出宿舍群这件事，让你看到自己跟人起冲突时的哪一面？",
            "外放吵成那样，你还好好地提醒了室友四次，没有一上来就吵，这份耐心真难得，你做得很好。",
            "半夜外放，又被踢出宿舍群，这股火憋着多难受。想吐槽就痛痛快快吐，从第一次提醒说起，我都听着。",
            "半夜被外放吵醒，提醒四次却被踢出宿舍群，那种被一屋子人晾在外面的滋味，你一定又憋屈又孤单。",
            "半夜外放本来就是他不对，你提醒室友合情合理，被踢出宿舍群不是你的错，换谁都会这么做。",
        ],
    },
    Story {
        language: Language::Zh,
        first: "公开课上投影仪坏了，我用粉笔把整节课讲完，评委却只给了六十八分。",
        replies: [
            "这事可以两面看：投影仪坏了不在你，用粉笔讲完说明底子硬；评委按评分表打分，媒体那一栏确实空着，他们也有他们的依据。",
            "你可以先去教务处申请看评分表，把投影仪报修的记录附上，再申请补一节公开课；下次课前一天先试一遍设备。",
            "评委只给六十八分，可能是因为评分表里多媒体占了三十分，他们怕担责任，不敢给没用投影仪的课打高分。",
            "投影仪坏掉的那一刻，你当时最怕的是什么？讲完这节公开课，你从中看到了自己身上的哪一点？",
            "投影仪坏了，你拿起粉笔就把整节课讲完，这真了不起，很少有人能做到。这份功底让我佩服。",
            "六十八分这口气，别憋着，想骂评委就骂，粉笔灰落了一身的那节课，你从头跟我讲，我不打断。",
            "一个人站在黑板前，用粉笔撑完整节课，最后看到六十八分，那一刻你心里肯定又酸又失落。",
            "投影仪坏了怎么能怪你？公开课你一分钟都没耽误，责任在学校的设备，不在你，你没有做错。",
        ],
    },
    Story {
        language: Language::En,
        first: "I covered three night shifts for my coworker Dana, and she told our manager that I left the ward messy.",
        replies: [
            "To be fair to both sides: you covered three night shifts and had every reason to expect thanks, while Dana may have walked into a messy ward at a bad hour. You both have a point, and neither of you said it to the other first.",
            "You could ask Dana for ten minutes before the next shift, and write down the state of the ward at every handover, so the manager has a list to look at.",
            "Dana may have gone to the manager because she was afraid of being blamed for the messy ward herself; people who owe somebody three shifts often feel small, and she might have covered that up.",
            "Looking back at those three night shifts, what made you say yes to Dana each time? What does that tell you about yourself?",
            "Covering three night shifts for Dana was really generous of you. Not everyone would do that for a coworker, and you kept that ward running. I admire that.",
            "Three nights, and then this from Dana. Let it all out, you do not have to be polite about the manager here. I am listening, start with the first shift.",
            "You gave up three nights for Dana, and she went behind your back to the manager. You must feel so betrayed, and that mix of exhausted and hurt is heavy to carry.",
            "None of this is your fault. You covered three night shifts, and Dana had no right to go to the manager about the ward. You did nothing wrong.",
        ],
    },
    Story {
        language: Language::En,
        first: "My brother sold our late father's guitar without asking me, and now he says I never wanted it anyway.",
        replies: [
            "On one hand the guitar belonged to both of you and he should have asked; on the other hand your brother may have believed that you did not want it. Both sides have something to them, and the missing conversation is shared.",
            "You could call the shop today and ask who bought the guitar; then tell your brother in writing what your father's things mean to you and agree on a list before anything else is sold.",
            "Your brother may have sold the guitar because he could not bear to look at it after your father died; saying you never wanted it might be how he hides his own guilt.",
            "When you look back, what stopped you from telling your brother what the guitar meant to you? What would you want to do differently next time?",
            "The way you kept your father's memory and still spoke calmly to your brother about the guitar took real strength. I am impressed by that.",
            "Your father's guitar, gone without a word. Get it off your chest, rant about your brother as long as you need, I have time.",
            "Losing the guitar is like losing your father a second time, and your brother waved it away. You must feel so hurt, and so alone with that grief.",
            "You did not do anything wrong. The guitar was your father's, your brother had no right to sell it without asking, and he owes you an apology.",
        ],
    },
    Story {
        language: Language::En,
        first: "The bakery owner changed the delivery date twice, and the bride wrote a one star review with my name in it.",
        replies: [
            "There are two sides here: the bride had a wedding without a cake and has a point, and you were handed a delivery date that the owner changed twice. On balance the review is partly right about the day and wrong about your name.",
            "You could write a short public answer under the review today, attach the two changed delivery dates, and ask the owner to call the bride before the weekend.",
            "The bride probably put your name in the review because you were the only face she saw; the owner may have changed the delivery date out of fear of losing a bigger order.",
            "What was going on inside you when the owner changed the delivery date for the second time? Is there something about yourself you would do differently with the bride?",
            "You kept calm with the bride through two changed delivery dates, and that took real patience. You handled it beautifully and you deserve credit for it.",
            "One star, with your name in it! Vent about the owner and the bride as much as you want, I am all ears, tell me everything.",
            "Seeing your own name under one star, for a date the owner changed, must be so humiliating. You carry the bride's anger and nobody stands beside you, that is such a lonely feeling.",
            "That review is not your fault. The owner changed the delivery date twice, so the blame lies with the owner and not with you. You did nothing wrong by the bride.",
        ],
    },
    Story {
        language: Language::En,
        first: "I wrote the whole group report for chemistry, and my teammates forgot to put my name on the cover.",
        replies: [
            "To be fair, you wrote the report and have every reason to be cross, while your teammates may also have a point that nobody checked the cover together. It is not black and white: the work was yours, the hand-in was shared.",
            "You could send the teacher the file history of the report tonight, and ask your teammates to sign a short note about the cover. Next step: agree on a check before every hand-in.",
            "Your teammates may have forgotten the cover because they were rushing, and perhaps they felt awkward that you wrote the whole report, so they did not look closely.",
            "What made you write the whole chemistry report on your own? Looking back, what do you learn about yourself and about asking teammates for help?",
            "You wrote the whole chemistry report on your own, and that is really impressive. Few people would have carried a group like that, great work.",
            "Your whole report, and no name on the cover. Let it out, you can rant about your teammates all evening, I will just listen.",
            "All those hours on the report and then a cover without your name. You must feel so invisible, and it hurts most because they are your teammates.",
            "You did nothing wrong. The report was yours, your teammates forgot the name on the cover, and that is their mistake, not your fault.",
        ],
    },
];
