using System.Collections.Generic;

namespace Scoregate
{
    /// <summary>A page of the boards of a family on which a player stands.</summary>
    public sealed class StandingPage : Document
    {
        internal StandingPage(JsonValue json) : base(json)
        {
            Window = json["window"].AsText();
            Standings = ListOf(json["standings"], item => new Standing(item));
            Next = json["next"].AsTextOrNull();
        }

        /// <summary>The window.</summary>
        public string Window { get; }

        /// <summary>The standings, by name of the board.</summary>
        public IReadOnlyList<Standing> Standings { get; }

        /// <summary>The cursor of the next page, null after the last.</summary>
        public string Next { get; }
    }
}
