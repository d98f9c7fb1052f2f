namespace Scoregate
{
    /// <summary>A board of a family as it was opened. Json has the rest.</summary>
    public sealed class FamilyBoard : Document
    {
        internal FamilyBoard(JsonValue json) : base(json)
        {
            Name = json["board"].AsText();
            Family = json["family"].AsText();
            Title = json["title"].AsText();
            State = json["state"].AsText();
            Version = json["version"].AsLong();
            Metadata = json["metadata"];
            Parameters = json["parameters"];
            Asset = json["asset"].AsTextOrNull();
            OpensAt = json["opens_at"].AsTextOrNull();
            ClosesAt = json["closes_at"].AsTextOrNull();
        }

        /// <summary>The board's name.</summary>
        public string Name { get; }

        /// <summary>The family.</summary>
        public string Family { get; }

        /// <summary>Its title.</summary>
        public string Title { get; }

        /// <summary>Whether it is open.</summary>
        public string State { get; }

        /// <summary>Counts its changes.</summary>
        public long Version { get; }

        /// <summary>Its metadata.</summary>
        public JsonValue Metadata { get; }

        /// <summary>What its simulator gets.</summary>
        public JsonValue Parameters { get; }

        /// <summary>The digest of its asset, or null.</summary>
        public string Asset { get; }

        /// <summary>From when runs can be opened.</summary>
        public string OpensAt { get; }

        /// <summary>Until when.</summary>
        public string ClosesAt { get; }
    }
}
