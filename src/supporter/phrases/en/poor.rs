use crate::supporter::phrases::PoorWording;

pub(super) static POOR: [&PoorWording; 7] = [&DISMISSAL, &BLAME, &FORMULA, &LECTURE, &OTHER_SUBJECT, &CURT, &CHEER];

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
