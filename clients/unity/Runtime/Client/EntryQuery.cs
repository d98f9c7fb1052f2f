using System.Collections.Generic;

namespace Scoregate
{
    /// <summary>Which entries of a board to read. What is null is as the gateway does it by itself.</summary>
    public sealed class EntryQuery
    {
        /// <summary>alltime, daily, weekly, monthly, season, or one by name.</summary>
        public string Window { get; set; }

        /// <summary>Entries to skip.</summary>
        public long? Offset { get; set; }

        /// <summary>The most entries, 1 to 100.</summary>
        public long? Limit { get; set; }

        /// <summary>Next or Previous of a page, to continue from there.</summary>
        public string Cursor { get; set; }

        /// <summary>unique, sparse or dense.</summary>
        public string Ranks { get; set; }

        /// <summary>Only this client's player and those they follow.</summary>
        public bool Friends { get; set; }

        /// <summary>Only these players, up to 100.</summary>
        public IReadOnlyList<string> Players { get; set; }

        /// <summary>Only the members of a group, such as country:de.</summary>
        public string Segment { get; set; }

        internal Query ToQuery() => new Query()
            .Add("window", Window)
            .Add("offset", Offset)
            .Add("limit", Limit)
            .Add("cursor", Cursor)
            .Add("ranks", Ranks)
            .AddIf("friends", Friends)
            .Add("players", Players)
            .Add("segment", Segment);
    }
}
