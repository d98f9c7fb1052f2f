using System.Collections.Generic;

namespace Scoregate
{
    /// <summary>A family of boards.</summary>
    public sealed class Family : Document
    {
        internal Family(JsonValue json) : base(json)
        {
            Name = json["family"].AsText();
            Title = json["title"].AsText();
            OpenedBy = json["opened_by"].AsText();
            Filters = json["filters"];
            Rollups = ListOrEmpty(json["rollups"], item => item.AsText());
        }

        /// <summary>The family's name.</summary>
        public string Name { get; }

        /// <summary>Its title.</summary>
        public string Title { get; }

        /// <summary>Who opens its boards.</summary>
        public string OpenedBy { get; }

        /// <summary>The type of each metadata field to filter by.</summary>
        public JsonValue Filters { get; }

        /// <summary>The boards that sum it up.</summary>
        public IReadOnlyList<string> Rollups { get; }
    }
}
