using System.Collections.Generic;

namespace Scoregate
{
    /// <summary>What of a board to follow. What is null is as the gateway does it by itself.</summary>
    public sealed class FeedQuery
    {
        /// <summary>Changes in these windows only.</summary>
        public IReadOnlyList<string> Windows { get; set; }

        /// <summary>Standings of these players, and what happens to their ranks.</summary>
        public IReadOnlyList<string> Players { get; set; }

        /// <summary>Standings of this client's player and those they follow.</summary>
        public bool Friends { get; set; }

        /// <summary>Some of standing, rank and overtaken.</summary>
        public IReadOnlyList<string> Events { get; set; }

        /// <summary>all, or newest to skip what a slow listener had no time for.</summary>
        public string Mode { get; set; }

        /// <summary>Resume after the event of this id.</summary>
        public string After { get; set; }

        internal Query ToQuery() => new Query()
            .Add("window", Windows)
            .Add("players", Players)
            .AddIf("friends", Friends)
            .Add("events", Events)
            .Add("mode", Mode);
    }
}
