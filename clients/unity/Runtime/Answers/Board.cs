using System.Collections.Generic;

namespace Scoregate
{
    /// <summary>A board as its readers need to know it. Json has the rest.</summary>
    public sealed class Board : Document
    {
        internal Board(JsonValue json) : base(json)
        {
            Name = json["board"].AsText();
            Title = json["title"].AsText();
            Order = json["order"].AsText();
            Operator = json["operator"].AsText();
            Windows = ListOf(json["windows"], item => item.AsText());
            Decimals = json["decimals"].AsLong();
            Ranks = ListOf(json["ranks"], item => item.AsText());
            TicksPerSecond = json["ticks_per_second"].AsLong();
            RevealS = json["reveal_s"].AsLongOrNull();
            Opened = json["opened"].IsNull ? null : new FamilyBoard(json["opened"]);
        }

        /// <summary>The board's name.</summary>
        public string Name { get; }

        /// <summary>Its title.</summary>
        public string Title { get; }

        /// <summary>Which scores are better.</summary>
        public string Order { get; }

        /// <summary>Which scores count.</summary>
        public string Operator { get; }

        /// <summary>The windows that it keeps.</summary>
        public IReadOnlyList<string> Windows { get; }

        /// <summary>The decimal places of a score.</summary>
        public long Decimals { get; }

        /// <summary>The kinds of rank that it keeps, its own first.</summary>
        public IReadOnlyList<string> Ranks { get; }

        /// <summary>The ticks of a second.</summary>
        public long TicksPerSecond { get; }

        /// <summary>
        /// The seconds to send a recording in when it is asked for; null if it must come with the score.
        /// </summary>
        public long? RevealS { get; }

        /// <summary>What a board of a family has besides, or null.</summary>
        public FamilyBoard Opened { get; }
    }
}
