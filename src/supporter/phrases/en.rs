use super::{Bank, Feeling, PoorWording, Wording};
use crate::dialogue::Strategy;
use crate::supporter::plan::Fault;

pub(super) static BANK: Bank = Bank {
    keyed_openers: &[
        "I keep thinking about what you said about {key}.",
        "The part about {key} really stayed with me.",
        "So there is also {key}, I see.",
        "I hear you about {key}, that is not easy.",
        "Thank you for telling me about {key}.",
        "What you said about {key} makes sense to me.",
        "Now I see how much there is behind {key}.",
        "With {key} on top of it, I see why this is a lot.",
        "I was listening closely when you came to {key}.",
        "The thing with {key} would get to anyone.",
        "I can picture it, {key} and all the rest.",
        "Having to deal with {key} sounds hard.",
    ],
    paired_openers: &[
        "First {earlier}, and then {key}, that is a lot.",
        "From {earlier} to {key}, I have followed every step.",
        "I remember {earlier}, and now {key} as well.",
        "Between {earlier} and {key}, you have had no rest.",
    ],
    quoting_openers: &[
        "You told me: {quote}",
        "This stays with me: {quote}",
        "I keep hearing this: {quote}",
        "One thing I hold on to: {quote}",
    ],
    plain_openers: &[
        "I hear you, really.",
        "Thank you for telling me this.",
        "I see what you mean.",
        "That does sound hard.",
        "This is not an easy thing.",
        "I am glad you told me.",
        "Okay, I understand a bit better now.",
        "Let us take a breath first.",
        "I took in all of that.",
        "Something like this is hard for anyone.",
    ],
    feelings: &[
        Feeling { word: "tired", cues: &[" tired", "sleep", "exhaust", "worn out", "all day", "busy"] },
        Feeling { word: "scared", cues: &["scared", "afraid", "fear", "panic", "shaking"] },
        Feeling { word: "worried", cues: &["worr", "nervous", "what if", "too late", "don't know"] },
        Feeling { word: "angry", cues: &["angry", "anger", "unfair", "how dare", "shout", "blame", "!"] },
        Feeling { word: "lonely", cues: &["alone", "nobody", "no one", "lonely"] },
        Feeling { word: "let down", cues: &["promise", "never call", "forgot", " lied", "let me down", "ignored"] },
        Feeling { word: "sad", cues: &[" sad", " cry", " cried", " miss ", " died", " gone"] },
        Feeling { word: "stuck", cues: &["stuck", "no way", "whatever", "anyway", "i guess"] },
        Feeling { word: "hurt", cues: &["hurt", "laughed", "careless", "in front of", "said i"] },
        Feeling { word: "disappointed", cues: &["upset", " bad", "awful", "wrong"] },
    ],
    vague_feelings: &["hurt", "disappointed", "sad", "let down"],
    keyed_thoughts: &[
        "They sound {feeling}, and it is about {key}.",
        "They seem {feeling} because of {key}.",
        "They sound {feeling} when they speak of {key}.",
        "They are {feeling}, most of all about {key}.",
    ],
    plain_thoughts: &[
        "They sound {feeling}.",
        "They seem quite {feeling}.",
        "I think they feel {feeling}.",
        "They are probably {feeling}.",
    ],
    good,
    poor,
    shortest: 12,
    longest: 40,
    shortest_quote: 3,
    full_stop: ".",
    separator: " ",
    measure: |text| text.split_whitespace().count(),
};

fn good(strategy: Strategy) -> &'static Wording {
    match strategy {
        Strategy::BothSides => &BOTH_SIDES,
        Strategy::Advice => &ADVICE,
        Strategy::AnalyseOthers => &ANALYSE_OTHERS,
        Strategy::GuideReflection => &GUIDE_REFLECTION,
        Strategy::PraiseActions => &PRAISE,
        Strategy::WillingToListen => &LISTEN,
        Strategy::NameFeeling => &EMPATHY,
        Strategy::Exonerate => &EXONERATE,
        Strategy::Question => &QUESTION,
        _ => &COMFORT,
    }
}

fn poor(fault: Fault) -> &'static PoorWording {
    match fault {
        Fault::Dismissal => &DISMISSAL,
        Fault::Blame => &BLAME,
        Fault::Formula => &FORMULA,
        Fault::Lecture => &LECTURE,
        Fault::OtherSubject => &OTHER_SUBJECT,
        Fault::Curt => &CURT,
        Fault::Cheer => &CHEER,
    }
}

static BOTH_SIDES: Wording = Wording {
    openers: &[
        "I would like to lay out all sides of {key}.",
        "About {key}, I do not want to pick a side too fast.",
        "Let us take {key} apart calmly.",
        "There is more than one truth about {key}.",
    ],
    bodies: &[
        "On the one hand they treated you badly, on the other hand nobody had told them everything.",
        "If you look at it from the other side, you have a point and they have one too.",
        "From your side it was not right, from their side it may have looked like a rule.",
        "I think both sides did something right and both sides missed something.",
        "Part of it is about people, and part of it is about how things were set up.",
        "There are two sides to this, what you can change and what you cannot.",
        "On the one hand there is a real cost, on the other hand there is something to gain.",
        "Seen from the other side, nobody explained the rules, and then everyone got loud.",
        "There are two sides to {key}, your good reasons and their limits.",
        "If you look at {key} from the other side, both people and planning went wrong.",
        "With {key}, on the one hand you were right, on the other hand the timing was bad.",
        "When it comes to {key}, both sides have a point and both sides made a mistake.",
    ],
    closers: &[
        "Which side counts more for you?",
        "Does that sound fair to you?",
        "We can sort it out slowly.",
        "There is no need to judge yet.",
        "How do you see the other side?",
        "Seeing both may clear your mind a little.",
    ],
    intents: &[
        "I will lay out both sides.",
        "I will not take a side, I will look at it from two sides.",
        "It may help to look from another side.",
        "I will take the problem apart calmly.",
    ],
};

static ADVICE: Wording = Wording {
    openers: &[
        "I have an idea about {key}.",
        "We can take {key} one step at a time.",
        "Let us find a way to handle {key}.",
        "There is one simple thing you can do about {key}.",
    ],
    bodies: &[
        "You could start by writing down the one thing that cannot wait.",
        "I would suggest finding a quiet moment and saying it face to face.",
        "You could try one little step today and leave the rest for later.",
        "Maybe try to sleep on it first and ask for a talk tomorrow.",
        "One thing that may help is to write down your words before you say them.",
        "You could start by asking one person you trust to come with you.",
        "As a first step you could list the facts, and then ask for one clear thing.",
        "You could try to cut it into three parts and do one part a day.",
        "You could start by asking for a short talk about {key}.",
        "For {key}, I would suggest writing down two clear wishes first.",
        "As a first step you could note down everything about {key} and show it to someone.",
        "You could try one little change with {key} and see what happens.",
    ],
    closers: &[
        "Which step feels easiest to you?",
        "A little is enough for now.",
        "If it does not fit, we find another way.",
        "What could you try today?",
        "Shall we think about the first words?",
        "Take it one step at a time.",
    ],
    intents: &[
        "I will suggest something they can do today.",
        "I will give one clear piece of advice.",
        "A small first step may help most.",
        "I will offer a way out, step by step.",
    ],
};

static ANALYSE_OTHERS: Wording = Wording {
    openers: &[
        "I also wonder why they acted like that about {key}.",
        "There may be a reason behind {key}.",
        "Let me guess what was in their head about {key}.",
        "When it came to {key}, they had their own view.",
    ],
    bodies: &[
        "They may have done it because they did not want to be blamed.",
        "Maybe they did not mean you, they may have acted in a hurry.",
        "I guess they acted that way because they had too much to do.",
        "From where they stand, they may have just wanted it to be over.",
        "Perhaps they got so loud because they did not want to lose face.",
        "They may have done it out of habit and never saw what it did to you.",
        "They probably said that because they did not know the whole story.",
        "Maybe they were in a hard spot and thought of themselves first.",
        "With {key}, they may have done it because they wanted no trouble.",
        "About {key}, they probably acted in a hurry, because they had too much to do.",
        "They may see {key} in another way, and maybe that is why they did it.",
        "Behind {key}, they may have had a worry that they never told you.",
    ],
    closers: &[
        "Can you think of another reason?",
        "That does not make it right.",
        "Are they always like that?",
        "Does that explain it a little?",
        "Knowing the reason can clear things up.",
        "Did they say anything later?",
    ],
    intents: &[
        "I will think about why the others did this.",
        "I will say what their reason may be.",
        "I will try to stand in the other person's place.",
        "It may help to understand the others.",
    ],
};

static GUIDE_REFLECTION: Wording = Wording {
    openers: &[
        "Maybe {key} can show you something about yourself.",
        "Let us stop for a moment at {key}.",
        "I have one question for you about {key}.",
        "After {key}, you may see some things in a new way.",
    ],
    bodies: &[
        "What would you do differently if it happened again?",
        "Looking back, what mattered most to you in that moment?",
        "What do you think this has taught you about yourself?",
        "If you could go back, what would you say to yourself?",
        "What does this tell you about what you really want?",
        "Looking back, when could you have taken another way?",
        "What have you learned about yourself from all of this?",
        "Why do you think you keep it all in each time?",
        "Looking back at {key}, what would you do differently?",
        "What do you think {key} could teach you about yourself?",
        "If {key} came up again, what would you do differently?",
        "Looking back at {key}, what mattered most to you?",
    ],
    closers: &[
        "You can think about it first.",
        "There is no right answer here.",
        "Say whatever comes to your mind.",
        "Looking back like this helps us grow.",
        "The answer is inside of you.",
        "I will think about it with you.",
    ],
    intents: &[
        "I will ask something that helps them look at themselves.",
        "I will not give the answer, they can find it.",
        "I will ask what they would do differently.",
        "A question about themselves may help them grow.",
    ],
};

static PRAISE: Wording = Wording {
    openers: &[
        "I can see how much care you put into {key}.",
        "You did more for {key} than you think.",
        "I was impressed when you told me about {key}.",
        "What you did about {key} counts.",
    ],
    bodies: &[
        "It took courage to do that, and you did it.",
        "You kept going all this time, and that is really impressive.",
        "You did not run away, and that was brave of you.",
        "You did a great job, not everyone could have done it.",
        "I admire how much thought you put into it.",
        "You stood up when it was hard, and I admire that.",
        "You did everything with so much care, well done.",
        "The way you looked after others shows how kind and strong you are, well done.",
        "It took courage to handle {key} the way you did.",
        "I admire how you dealt with {key}, you did a great job.",
        "You did not run away from {key}, and that was brave of you.",
        "The care you gave to {key} is really impressive.",
    ],
    closers: &[
        "You can be proud of that.",
        "Others missed it, but I see it.",
        "How did you manage to do it?",
        "You have earned some praise.",
        "That says a lot about you.",
        "I am happy for you.",
    ],
    intents: &[
        "I will praise what they did.",
        "I will tell them what they did well.",
        "I will say honestly that I admire it.",
        "They did something hard, and they should hear it.",
    ],
};

static LISTEN: Wording = Wording {
    openers: &[
        "If you want to talk about {key}, I want to hear it.",
        "There must be so much to say about {key}.",
        "You can tell me about {key} as often as you like.",
        "Even {key} alone is enough to fill an evening.",
    ],
    bodies: &[
        "I am listening, take your time and say all of it.",
        "Let it all out, I am here and I am listening.",
        "You do not have to make sense now, just let it out, I am listening.",
        "Nobody will stop you here, take your time, I am listening.",
        "You kept it in for so long, let it all out, I am here.",
        "I will not tell you what to do, I am here to listen.",
        "You can be as loud as you want, I am here and I stay.",
        "You can cry or shout, I am here for you and I am listening.",
        "Tell me all about {key}, I am listening, take your time.",
        "Let it all out about {key}, I am here to listen.",
        "You kept {key} inside for so long, let it out, I am here.",
        "Take your time with {key}, I am listening and I will not interrupt.",
    ],
    closers: &[
        "What happened after that?",
        "Go on, I am with you.",
        "I am not going anywhere.",
        "What else is on your mind?",
        "You can say more if you like.",
        "I will not get tired of it.",
    ],
    intents: &[
        "I will not give advice, just listen.",
        "They seem to want someone to listen, so I will.",
        "I will let them get it all out.",
        "No lesson now, I will only listen.",
    ],
};

static EMPATHY: Wording = Wording {
    openers: &[
        "It is like a stone on your chest, all this with {key}.",
        "I can hear how deep {key} goes for you.",
        "You held back so much about {key}.",
        "It touched a soft spot in you, this thing with {key}.",
    ],
    bodies: &[
        "You must feel so {feeling}, anyone in your place would.",
        "It sounds like you feel {feeling}, and that is hard to put into words.",
        "You feel {feeling} because you really care, and nobody saw it.",
        "You look calm, but inside you must feel very {feeling}.",
        "I can hear how {feeling} you are, and how much is still unsaid.",
        "You gave so much and nobody understood, no wonder you feel {feeling}.",
        "You carry this all by yourself, so you must feel {feeling}, I would too.",
        "You are not too soft, you feel {feeling} because this matters to you.",
        "I can hear how {feeling} you feel about {key}, anyone in your place would.",
        "You must feel so {feeling} about {key}, with nobody to share it.",
        "You feel {feeling} about {key} because it means so much to you.",
        "You must feel {feeling} about {key}, I would feel that way too.",
    ],
    closers: &[
        "Did I get that right?",
        "How long have you felt like this?",
        "You do not have to act fine.",
        "I will sit with you for a while.",
        "That feeling makes sense to me.",
        "Nobody should talk you out of it.",
    ],
    intents: &[
        "I will name this feeling so they know someone understands.",
        "I will not cheer them up, I will feel it with them.",
        "I will say how I would feel in their place.",
        "They need to feel understood first.",
    ],
};

static EXONERATE: Wording = Wording {
    openers: &[
        "I am on your side about {key}.",
        "Nobody can blame you for {key}.",
        "It is not fair how they treat you over {key}.",
        "After hearing about {key}, I think they treat you unfairly.",
    ],
    bodies: &[
        "It was not your fault, please do not carry it.",
        "You did nothing wrong, so please do not take the blame.",
        "The fault is not yours, they did not do their part.",
        "You are not to blame, anyone would have done the same.",
        "You did nothing wrong, they did you wrong.",
        "This is not your fault, and it is not fair to blame you.",
        "The blame is theirs, not yours, you did nothing wrong.",
        "You are right about this, it really was not your fault.",
        "You are not to blame for {key}, you did nothing wrong.",
        "What happened with {key} was not your fault.",
        "You did nothing wrong about {key}, they planned it badly.",
        "How can they put {key} on you? It is not your fault.",
    ],
    closers: &[
        "You do not owe anyone an apology.",
        "I am on your side here.",
        "You have every right to be angry.",
        "They owe you an apology.",
        "Anyone would see that.",
        "Who made you feel it was?",
    ],
    intents: &[
        "I will tell them it was not their fault.",
        "I am on their side and will say so.",
        "They should not carry the blame, I will say it.",
        "I agree that they did nothing wrong.",
    ],
};

static COMFORT: Wording = Wording {
    openers: &[
        "You have had a hard time with {key}.",
        "I wish I could make you some tea after {key}.",
        "All this with {key} will not last forever.",
        "You have tried so hard with {key}.",
    ],
    bodies: &[
        "It will get better, even if it takes some time.",
        "I am sending you a hug, please rest a little today.",
        "This too will pass, there are better days to come.",
        "You have done enough for today, things will get better.",
        "Do not worry, everything will be okay in the end.",
        "I am with you in this, it will be all right.",
        "Sleep well tonight, tomorrow it will get better.",
        "Do not lose hope, even the longest road will pass.",
        "Things will get better with {key}, even if it takes time.",
        "Do not let {key} break you, I am sending you a hug.",
        "The trouble with {key} will pass, it will be all right.",
        "You did enough about {key} today, it will be okay.",
    ],
    closers: &[
        "Be kind to yourself today.",
        "I am here with you.",
        "Maybe have something warm to eat.",
        "You can take it slowly for now.",
        "Is there something that helps you rest?",
        "Give yourself some time.",
    ],
    intents: &[
        "I will comfort them with warm words.",
        "I will say something kind and warm.",
        "I want to give them some hope.",
        "They should calm down a little first.",
    ],
};

static QUESTION: Wording = Wording {
    openers: &[
        "I would like to know more about {key}.",
        "There is one thing about {key} that I did not get.",
        "I want to understand {key} better.",
        "You just told me about {key}, so let me ask.",
    ],
    bodies: &[
        "What exactly happened on that day, and who was there?",
        "What happened next, and what did you say to them?",
        "When did it start to be like this?",
        "What happened just before that moment?",
        "What did they say to you at that time?",
        "What was the hardest moment for you?",
        "Did anything more happen at that time?",
        "How are things now, do you still talk to each other?",
        "What exactly happened with {key}, and who was there?",
        "What happened with {key} after that, did anyone help you?",
        "What is the hardest thing about {key} for you?",
        "When did the trouble over {key} begin, does anyone else know?",
    ],
    closers: &[
        "It is fine if you would rather not say.",
        "I want to understand it better.",
        "You can tell it in your own words.",
        "Say as much as you like.",
        "Your own words are fine.",
        "It does not have to be in order.",
    ],
    intents: &[
        "I do not know enough yet, so I will ask.",
        "I will ask what happened.",
        "I want to know more before I judge.",
        "I will ask for more details.",
    ],
};

static DISMISSAL: PoorWording = PoorWording {
    texts: &[
        "It is not a big deal, just get over it.",
        "Everyone goes through this, you will forget it in a week.",
        "You are overreacting, other people have real problems.",
        "Calm down, it is not that bad.",
        "You are too sensitive, just let it go.",
        "That is over, why bring it up again?",
        "You think too much, just move on.",
        "Others have it worse, so stop complaining.",
        "It is only {key}, you are overreacting.",
        "Forget about {key}, it is not a big deal.",
        "So what about {key}, just get over it.",
        "You think too much about {key}, just move on.",
    ],
    intents: &[
        "This is no big thing, one line will do.",
        "They take it too seriously.",
        "They think too much and should let it go.",
    ],
};

static BLAME: PoorWording = PoorWording {
    texts: &[
        "To be honest, it is your own fault.",
        "It takes two to fight, so look at yourself first.",
        "You should have said that earlier, who else is to blame?",
        "You got so loud, that is why it went wrong.",
        "Stop blaming others and look at yourself.",
        "If you had planned better, none of this would have happened.",
        "You brought this on yourself, you know.",
        "Why did you not speak up? It is too late now.",
        "You are to blame for {key} as well.",
        "If you had listened, there would be no trouble with {key}.",
        "The thing with {key} is your own fault.",
        "You should have been more careful about {key}.",
    ],
    intents: &[
        "They did this to themselves, I will say so.",
        "They should look at their own mistakes.",
        "No one else is to blame.",
    ],
};

static FORMULA: PoorWording = PoorWording {
    texts: &[
        "We are sorry for the inconvenience, how else can I assist you today?",
        "Thank you for your feedback, we will process it shortly.",
        "As an AI assistant I do not have feelings, but I can provide information.",
        "I understand your concern, please stay positive.",
        "Your request has been noted, please wait for a reply.",
        "Here are some tips: stay calm, communicate well, seek support.",
        "Please consult a professional if you need further help.",
        "I am happy to assist you, have a nice day.",
        "Your message about {key} has been received, thank you for your feedback.",
        "We are sorry for the inconvenience with {key}, please wait for a reply.",
    ],
    intents: &["I will use the standard reply.", "A fixed phrase is enough here.", "I will answer like a help desk."],
};

static LECTURE: PoorWording = PoorWording {
    texts: &[
        "You must learn to be grateful, hard times build character.",
        "Life is like that, you have to be strong and never complain.",
        "Read more, do sports and go to bed early.",
        "Winners never complain, they always look for their own mistakes.",
        "Always think positive, attitude is everything.",
        "You have to understand that the world is hard, so adapt.",
        "Family comes first, think of the bigger picture.",
        "At your age one must know better and be more mature.",
        "With {key} one must just be patient, good things take time.",
        "You must learn from {key}, hard times build character.",
    ],
    intents: &[
        "They need a lesson about life.",
        "I will tell them how one should live.",
        "They have to understand how the world works.",
    ],
};

static OTHER_SUBJECT: PoorWording = PoorWording {
    texts: &[
        "By the way, did you have lunch? The weather is nice.",
        "Have you seen the new film? I liked it.",
        "I bought new shoes today, what colour do you like?",
        "Anyway, what are you doing this weekend?",
        "Do you know a good place for noodles?",
        "Let us talk about music, what do you like?",
        "Did you watch the game last night? It was great.",
        "Do you have a cat or a dog? I want one.",
        "Enough about {key}, what are you doing this weekend?",
        "Leave {key} for now, did you have lunch?",
    ],
    intents: &[
        "This is too heavy, I will change the subject.",
        "Let us talk about something else.",
        "I do not want to talk about this.",
    ],
};

static CURT: PoorWording = PoorWording {
    texts: &[
        "Oh.",
        "Okay, got it.",
        "I see.",
        "Fine.",
        "Whatever.",
        "Oh, really.",
        "Well, that is that.",
        "No idea.",
        "Oh, {key}, okay.",
        "Right, {key}.",
    ],
    intents: &[
        "I do not know what to say, anything will do.",
        "I do not feel like saying much.",
        "A short answer is enough.",
    ],
};

static CHEER: PoorWording = PoorWording {
    texts: &[
        "Haha, cheer up, just smile and it will be fine!",
        "You are the best, go go go!",
        "Great, tomorrow is another wonderful day!",
        "Stop thinking and go have some fun!",
        "Wow, that is so funny, haha!",
        "Nothing can stop you, yay!",
        "Good vibes only, stay happy every day!",
        "No worries at all, luck is on the way!",
        "Never mind {key}, just smile and be happy!",
        "Haha, I love the story about {key}!",
    ],
    intents: &["It is too gloomy, I will be cheerful.", "Some cheering will do.", "A big smile fixes everything."],
};
